/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live process as a target: its memory by process_vm_readv, which neither stops it nor leaves a
 * trace in it, its mappings by /proc. Both are allowed by the kernel's rule for ptrace.
 */
#include "tool/target/target.h"

#include "tool/base/io.h"
#include "tool/base/time.h"
#include "tool/target/refusal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The thread through which the process is read may end while others go on. */
static bool process_read(struct sa_target *t, uint64_t address, void *buffer, size_t bytes)
{
    struct iovec here = {buffer, bytes}, there = {(void *)(uintptr_t)address, bytes};
    ssize_t n = process_vm_readv(t->thread, &here, 1, &there, 1, 0);

    if (n < 0 && errno == ESRCH) {
        t->thread = sa_io_living(t->pid);
        n = process_vm_readv(t->thread, &here, 1, &there, 1, 0);
    }
    return n == (ssize_t)bytes;
}

static size_t process_read_many(struct sa_target *t, const struct sa_piece *pieces, size_t count)
{
    struct iovec here[SA_PIECES_MAX], there[SA_PIECES_MAX];
    ssize_t bytes;
    size_t i = 0;

    do {
        here[i] = (struct iovec){pieces[i].buffer, pieces[i].bytes};
        there[i] = (struct iovec){(void *)(uintptr_t)pieces[i].address, pieces[i].bytes};
    } while (++i < count);
    bytes = process_vm_readv(t->thread, here, count, there, count, 0);
    for (i = 0; i < count && bytes >= (ssize_t)pieces[i].bytes; i++)
        bytes -= (ssize_t)pieces[i].bytes;
    return i;
}

/* A file that was deleted or replaced, or that has another name in the process's own file system,
 * is read through /proc. */
static bool process_file(struct sa_target *t, const struct sa_row *row, char *ret, size_t cap)
{
    const char *path = sa_target_path(t, row);

    snprintf(ret, cap, "/proc/%d/map_files/%llx-%llx", t->thread, (unsigned long long)row->start,
             (unsigned long long)row->end);
    if (access(ret, R_OK) == 0)
        return true;
    if (snprintf(ret, cap, "/proc/%d/root%s", t->thread, path) < (int)cap && access(ret, R_OK) == 0)
        return true;
    /* The process has ended meanwhile: its file is most likely the one of that name. */
    return kill(t->pid, 0) != 0 && errno == ESRCH && snprintf(ret, cap, "%s", path) < (int)cap &&
           access(ret, R_OK) == 0;
}

static void process_close(struct sa_target *t)
{
    (void)t;
}

static bool process_area(struct sa_target *t, size_t i, struct sa_area *ret)
{
    const struct sa_row *row;

    if (i >= t->row_count)
        return false;
    row = &t->rows[i];
    *ret = (struct sa_area){row->start, row->end, row->access, sa_target_path(t, row),
                            i && row[-1].end == row->start && !(row[-1].access & SA_ACCESS_READ)};
    return true;
}

static const struct sa_target_kind process_kind = {.read = process_read,
                                                   .read_many = process_read_many,
                                                   .file = process_file,
                                                   .area = process_area,
                                                   .close = process_close};

/* Of the four letters of /proc/PID/maps. */
static unsigned access_of(const char *letters)
{
    return (letters[0] == 'r' ? SA_ACCESS_READ : 0) | (letters[1] == 'w' ? SA_ACCESS_WRITE : 0) |
           (letters[2] == 'x' ? SA_ACCESS_EXECUTE : 0) |
           (letters[2] && letters[3] == 's' ? SA_ACCESS_SHARED : 0);
}

/* A line of /proc/PID/maps. */
static bool add_line(struct sa_target *t, char *line)
{
    unsigned long long start, end, offset, known = t->row_count ? t->rows[t->row_count - 1].end : 0;
    char letters[8] = "";
    int at = 0;

    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %n", &start, &end, letters, &offset, &at) < 4 ||
        !at)
        return true;
    /* The kernel writes the lines of a page at a time: mappings may have been joined in between. */
    if (start < known) {
        offset += known - start;
        start = known;
    }
    if (start >= end)
        return true;
    return sa_target_add_row(t, start, end, offset, access_of(letters), line + at);
}

static bool read_maps(struct sa_target *t, struct sa_error *e)
{
    char path[64], *line = NULL;
    size_t cap = 0;
    bool fine = true;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%d/maps", t->thread);
    f = fopen(path, "re");
    if (!f) {
        sa_refusal_explain(t->pid, errno, e);
        return false;
    }
    errno = 0;
    while (fine && getline(&line, &cap, f) > 0)
        fine = add_line(t, line);
    if (errno == EACCES || errno == EPERM || errno == ESRCH)
        sa_refusal_explain(t->pid, errno, e);
    else if (!fine)
        sa_error_set(e, SA_EXIT_FAILED, "process %d: no memory for its mappings", t->pid);
    else if (!t->row_count)
        sa_refusal_explain(t->pid, 0, e);
    free(line);
    fclose(f);
    return !e->code;
}

static void read_auxiliary(struct sa_target *t)
{
    char path[64], vector[4096];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/auxv", t->thread);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    n = read(fd, vector, sizeof(vector));
    if (n > 0)
        sa_target_set_auxiliary(t, vector, (size_t)n);
    close(fd);
}

/* Whether memory can be read at all: a byte of the program's headers, or of its first mapping. */
static bool can_read(struct sa_target *t, struct sa_error *e)
{
    uint64_t at = t->program_headers ? t->program_headers : t->rows[0].start;
    char byte;

    if (sa_target_read(t, at, &byte, 1) || (errno != EPERM && errno != ESRCH))
        return true;
    sa_refusal_explain(t->pid, errno, e);
    return false;
}

bool sa_target_open_process(struct sa_target *t, pid_t pid, struct sa_error *e)
{
    memset(t, 0, sizeof(*t));
    t->kind = &process_kind;
    t->pid = pid;
    t->thread = sa_io_living(pid);
    t->live = true;
    t->time_ns = sa_time_ns(CLOCK_REALTIME);
    if (!read_maps(t, e)) {
        sa_target_close(t);
        return false;
    }
    read_auxiliary(t);
    if (!can_read(t, e)) {
        sa_target_close(t);
        return false;
    }
    return true;
}
