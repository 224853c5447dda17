/* SPDX-License-Identifier: Apache-2.0 */
/* Destinations of reports; see destination.h. A destination belongs to its caller. */
#include "alloc/output/destination.h"

#include "alloc/base/bits.h"
#include "alloc/base/error_words.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The least number of a copy: above the numbers that programs expect for the next file they
 * open. */
#define COPY_MIN 200

/* The most bytes of a path that a message shows. It shows the end, which says more. */
#define SHOWN 220

/* Parses the number at the start of the text; *ret_rest becomes the text behind it. -1: there is
 * none, or it has more than 7 digits. */
static int parse_number(const char *text, const char **ret_rest)
{
    const char *p = text;
    int n = 0;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (p - text >= 7)
            return -1;
        n = n * 10 + (*p - '0');
    }
    *ret_rest = p;
    return p == text ? -1 : n;
}

int sa_destination_number(const char *pattern, const char **ret_ending)
{
    const char *rest = "";
    int number;

    *ret_ending = NULL;
    if (strcmp(pattern, "stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(pattern, "stderr") == 0)
        return STDERR_FILENO;
    if (strncmp(pattern, "fd:", 3) != 0)
        return sa_file_descriptor_of(pattern);
    number = parse_number(pattern + 3, &rest);
    if (number >= 0 && *rest == '.')
        *ret_ending = rest;
    return *rest && !*ret_ending ? -1 : number;
}

/* Variables that are too large for the stack of any thread. */
struct room {
    struct sa_file file;
    char path[SA_FILE_PATH_MAX];
};

#define ROOM_BYTES sa_align_up(sizeof(struct room), 65536)

bool sa_destination_is_direct(const char *pattern)
{
    const char *ending;
    struct room *room;
    bool is;

    if (sa_destination_number(pattern, &ending) >= 0)
        return true;
    room = sa_vm_map(NULL, ROOM_BYTES, "salloc file");
    if (!room)
        return false;
    is = sa_file_expand_to_try(pattern, room->path, sizeof(room->path)) == 0 &&
         sa_file_is_direct(&room->file, room->path);
    sa_vm_unmap(room, ROOM_BYTES);
    return is;
}

/* The descriptor that a pattern names, also by a link that leads to it; -1: none. */
static int number_of(const char *pattern)
{
    const char *ending;
    int number = sa_destination_number(pattern, &ending);
    struct room *room;

    if (number >= 0 || strchr(pattern, '%'))
        return number;
    room = sa_vm_map(NULL, ROOM_BYTES, "salloc file");
    if (!room)
        return -1;
    number = sa_file_leads_to(&room->file, pattern);
    sa_vm_unmap(room, ROOM_BYTES);
    return number;
}

int sa_destination_open(struct sa_file *file, const char *name, int mode)
{
    const char *ending;
    int number = sa_destination_number(name, &ending);
    int failed = number < 0 ? 0 : sa_file_check_descriptor(number);

    if (number < 0)
        return sa_file_begin_as(file, name, mode, true);
    if (!failed)
        sa_file_begin_descriptor(file, number);
    return failed;
}

/* Whether the descriptor still is the file that it was when the destination was initialised. */
static bool is_the_same(const struct sa_destination *d, int fd)
{
    uint64_t now[2];

    return fd >= 0 && sa_sys_file_identity(fd, now) == 0 &&
           memcmp(now, d->identity, sizeof(now)) == 0;
}

int sa_destination_init(struct sa_destination *d, const char *pattern)
{
    size_t n = strlen(pattern);
    int failed;

    d->number = number_of(pattern);
    d->copy = -1;
    d->mode = 0600;
    d->nested = false;
    d->told = 0;
    if (n >= sizeof(d->pattern)) {
        d->pattern[0] = '\0';
        return -ENAMETOOLONG;
    }
    memcpy(d->pattern, pattern, n + 1);
    if (d->number < 0)
        return sa_file_check_pattern(pattern);
    failed = sa_file_check_descriptor(d->number);
    return failed ? failed : sa_sys_file_identity(d->number, d->identity);
}

/*
 * Puts the current folder before a relative pattern, if it is known and there is room. Returns
 * -ENOENT if that folder was removed. A trial does not show that on tmpfs, where a file without a
 * name can still be made in the folder.
 */
static int make_absolute(struct sa_destination *d)
{
    char folder[SA_FILE_PATH_MAX], pattern[SA_FILE_PATH_MAX];
    struct sa_fmt f;
    long n;

    if (d->pattern[0] == '/' || !d->pattern[0])
        return 0;
    n = sa_sys_file_folder(folder, sizeof(folder));
    if (n <= 0 || folder[0] != '/')
        return n == -ENOENT ? -ENOENT : 0;
    sa_fmt_init(&f, pattern, sizeof(pattern));
    for (const char *p = folder; *p; p++)
        sa_fmt_add(&f, *p == '%' ? "%%%%" : "%c", *p);
    sa_fmt_add(&f, "%s%s", folder[1] ? "/" : "", d->pattern);
    if (!f.truncated)
        memcpy(d->pattern, pattern, f.len + 1);
    return 0;
}

/* Returns 0 or the error that a file at the path would meet. */
static int try_path(const struct sa_destination *d)
{
    static struct sa_file file; /* 8 KiB; used by the constructor, on one thread */
    char path[SA_FILE_PATH_MAX];
    int failed = sa_file_expand_to_try(d->pattern, path, sizeof(path));

    return failed ? failed : sa_file_try(&file, path);
}

int sa_destination_keep(struct sa_destination *d, const char *pattern, bool nested)
{
    int failed = sa_destination_init(d, pattern);

    d->nested = nested;
    if (d->number < 0) {
        int removed = make_absolute(d);

        if (!failed)
            failed = removed ? removed : try_path(d);
    } else if (!failed) {
        d->copy = sa_sys_file_copy(d->number, COPY_MIN);
        if (d->copy < 0)
            d->copy = sa_sys_file_copy(d->number, 0);
    }
    d->told = -failed;
    return failed;
}

/* Puts the name of the executable and the PID before the ending of a path, which is the part behind
 * the last dot of the file's name; ".pb.gz" is one ending. */
static int add_process(char path[SA_FILE_PATH_MAX])
{
    char program[64], tail[SA_FILE_PATH_MAX];
    char *name = strrchr(path, '/'), *ending;
    struct sa_fmt f;

    name = name ? name + 1 : path;
    ending = strrchr(name, '.');
    if (!ending || ending == name)
        ending = name + strlen(name);
    else if (ending - name >= 3 && memcmp(ending - 3, ".pb.gz", 6) == 0)
        ending -= 3;
    memcpy(tail, ending, strlen(ending) + 1);
    sa_file_program_name(program, sizeof(program));
    sa_fmt_init(&f, ending, SA_FILE_PATH_MAX - (size_t)(ending - path));
    sa_fmt_add(&f, ".%s.%d%s", program, sa_sys_pid(), tail);
    return f.truncated ? -ENAMETOOLONG : 0;
}

int sa_destination_begin(const struct sa_destination *d, struct sa_file *file, char *path,
                         bool text)
{
    int failed, fd = is_the_same(d, d->copy) ? d->copy : d->number;

    if (d->number < 0) {
        failed = sa_file_expand(d->pattern, path, SA_FILE_PATH_MAX);
        if (!failed && d->nested && !sa_file_pattern_has_pid(d->pattern))
            failed = add_process(path);
        return failed ? failed : sa_file_begin_as(file, path, d->mode, false);
    }
    memcpy(path, d->pattern, strlen(d->pattern) + 1);
    if (!is_the_same(d, fd))
        return -EBADF;
    sa_file_begin_descriptor(file, fd);
    if (text && d->number == STDERR_FILENO)
        file->lines_max = SA_DESTINATION_LINES;
    return 0;
}

void sa_destination_after_fork(struct sa_destination *d)
{
    if (d->number >= 0 && is_the_same(d, d->copy))
        sa_sys_close(d->copy);
    d->copy = -1;
    d->nested = true;
}

void sa_destination_complain(const char *what, const char *path, int error)
{
    char program[64], words[80];
    size_t n = strlen(path), skip = n > SHOWN ? n - SHOWN : 0;
    struct sa_fmt f;

    sa_fmt_init(&f, words, sizeof(words));
    sa_error_words_add(&f, error);
    sa_file_program_name(program, sizeof(program));
    sa_warn("%s[%d]: cannot write %s%s%s: %s", program, sa_sys_pid(), what, skip ? "..." : "",
            path + skip, words);
}

void sa_destination_tell(struct sa_destination *d, const char *what, const char *path, int error)
{
    if (error && error != d->told)
        sa_destination_complain(what, path, error);
    d->told = error;
}
