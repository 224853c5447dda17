/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc tells of processes; see processes.h. No state. */
#include "tool/reading/processes.h"

#include "tool/base/array.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void sa_process_read(pid_t pid, struct sa_process *ret)
{
    unsigned long long started = 0;
    unsigned long pages = 0;
    char text[1024], *end;

    *ret = (struct sa_process){.pid = pid, .name = "?"};
    if (read_file(pid, "comm", ret->name, sizeof(ret->name)))
        ret->name[strcspn(ret->name, "\n")] = '\0';
    for (char *p = ret->name; *p; p++)
        if (!isgraph((unsigned char)*p) || strchr("\"\\<>&'", *p))
            *p = '?';
    if (read_file(pid, "statm", text, sizeof(text)) && sscanf(text, "%*s %lu", &pages) == 1)
        ret->resident = pages * (size_t)sysconf(_SC_PAGESIZE);
    /* Field 22; the name, in parentheses, may have any character. */
    end = read_file(pid, "stat", text, sizeof(text)) ? strrchr(text, ')') : NULL;
    if (end && sscanf(end + 1,
                      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                      "%*d %llu",
                      &started) == 1)
        ret->started = started;
}

static int by_number(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

    return x < y ? -1 : x > y;
}

pid_t *sa_processes_list(size_t *ret_count)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    size_t count = 0, cap = 0;
    pid_t *list = NULL;

    while (proc && (entry = readdir(proc))) {
        pid_t pid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

        if (pid <= 0)
            continue;
        if (!sa_array_room(&list, &cap, count + 1, sizeof(*list), 256))
            break;
        list[count++] = pid;
    }
    if (proc)
        closedir(proc);
    if (list)
        qsort(list, count, sizeof(*list), by_number);
    *ret_count = count;
    return list;
}
