/* SPDX-License-Identifier: Apache-2.0 */
/* sallocctl ps: the processes that run on salloc. */
#include "tool/command/command.h"

#include "tool/reading/reading.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct line {
    pid_t pid;
    char name[32];
    size_t resident; /* bytes */
    uint64_t samples, used;
    double bytes; /* in use, estimated from samples */
};

static bool read_file(pid_t pid, const char *name, char *ret, size_t cap)
{
    char path[64];
    size_t n;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    f = fopen(path, "re");
    if (!f)
        return false;
    n = fread(ret, 1, cap - 1, f);
    ret[n] = '\0';
    fclose(f);
    return n > 0;
}

/* What the kernel tells: the name, without what would disturb a terminal, and the RSS. */
static void read_kernel(struct line *l)
{
    char text[128];
    unsigned long pages = 0;

    strcpy(l->name, "?");
    if (read_file(l->pid, "comm", l->name, sizeof(l->name)))
        l->name[strcspn(l->name, "\n")] = '\0';
    for (char *p = l->name; *p; p++)
        if (!isgraph((unsigned char)*p))
            *p = '?';
    if (read_file(l->pid, "statm", text, sizeof(text)) && sscanf(text, "%*s %lu", &pages) == 1)
        l->resident = pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* False, with an error, if it cannot be read or does not run on salloc. */
static bool read_line(pid_t pid, struct line *ret, struct sa_error *e)
{
    char number[16];
    struct sa_reading r;
    bool fine;

    *ret = (struct line){.pid = pid};
    snprintf(number, sizeof(number), "%d", pid);
    if (!sa_reading_open(&r, number, e))
        return false;
    fine = sa_live_count(&r.target, &r.table, &ret->samples, &ret->bytes, e);
    ret->used = fine ? sa_reading_used_bytes(&r, e) : 0;
    sa_reading_close(&r);
    read_kernel(ret);
    return fine && !e->code;
}

static void print_line(const struct line *l)
{
    double bytes = l->bytes > 0 && l->bytes < 1e18 ? l->bytes : 0;

    printf("%8d %-16s %12.1f %12.1f %12.1f %9llu\n", l->pid, l->name, (double)l->resident / 1048576,
           (double)l->used / 1048576, bytes / 1048576, (unsigned long long)l->samples);
}

static int by_number(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return x < y ? -1 : x > y;
}

/* The numbers of all processes, in order; NULL: no memory, or no /proc. */
static pid_t *list_processes(size_t *ret_count)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t cap = 0;
    pid_t *list = NULL;

    *ret_count = 0;
    while (proc && (entry = readdir(proc))) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

        if (pid <= 0)
            continue;
        if (*ret_count == cap) {
            void *more = realloc(list, (cap ? 2 * cap : 256) * sizeof(*list));

            if (!more)
                break;
            list = more;
            cap = cap ? 2 * cap : 256;
        }
        list[(*ret_count)++] = pid;
    }
    if (proc)
        closedir(proc);
    if (list)
        qsort(list, *ret_count, sizeof(*list), by_number);
    return list;
}

static int run(const void *options, int operand_count, char **operands)
{
    size_t count, refused = 0, damaged = 0;
    struct line line;
    pid_t *list;

    (void)options;
    (void)operand_count;
    (void)operands;
    list = list_processes(&count);
    if (!list) {
        fprintf(stderr, "sallocctl: /proc cannot be read\n");
        return SA_EXIT_FAILED;
    }
    printf("%8s %-16s %12s %12s %12s %9s\n", "PID", "NAME", "RSS MiB", "SALLOC MiB", "IN USE MiB",
           "SAMPLES");
    for (size_t i = 0; i < count; i++) {
        struct sa_error e = {SA_EXIT_DONE, ""};

        if (read_line(list[i], &line, &e))
            print_line(&line);
        refused += e.code == SA_EXIT_REFUSED;
        if (e.code == SA_EXIT_VERSION || e.code == SA_EXIT_DAMAGED) {
            sa_error_print(&e);
            damaged++;
        }
    }
    free(list);
    if (refused)
        fprintf(stderr,
                "sallocctl: may not read %zu processes; 'sallocctl profile PID' says "
                "why\n",
                refused);
    if (fflush(stdout) != 0)
        return SA_EXIT_FAILED;
    return damaged ? SA_EXIT_DAMAGED : SA_EXIT_DONE;
}

const struct sa_command sa_command_ps = {
    .name = "ps",
    .what = "list the processes that run on salloc",
    .synopsis = "\n",
    .text = "Lists the processes that run on salloc and may be read, by PID:\n"
            "\n"
            "  RSS MiB     memory of the process, of all kinds\n"
            "  SALLOC MiB  of the allocator: all that it uses\n"
            "  IN USE MiB  in use by the program, as estimated from the samples\n"
            "  SAMPLES     live samples, of which the estimate is made\n",
    .exit_codes = "0 done, 1 it could not be printed, 2 usage, 7 one could not be understood.\n",
    .operands = "it takes no arguments",
    .run = run,
};
