/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are complete or not there; see file.h. A struct sa_file belongs to its caller. */
#include "alloc/os/file.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fmt.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

static uint32_t file_sequence;  /* atomic, relaxed: the last number that %n stood for */
static uint32_t file_temporary; /* atomic, relaxed: the next number in a temporary name */

#define WAIT_MS 1000 /* of waiting for a descriptor that does not block, before the next try */
#define LINKS   40   /* the most symbolic links that are followed, as in the kernel */

/* Temporary names to try: others may have taken some, by accident or on purpose. */
#define TRIES 100

/* Returns the length of a path's folder with its slash; 0: the current folder. */
static size_t folder_length(const char *path)
{
    size_t n = strlen(path);

    while (n && path[n - 1] != '/')
        n--;
    return n;
}

/* Makes the next temporary name, in the file's folder. */
static int temporary_name(struct sa_file *file)
{
    size_t folder = folder_length(file->path);
    struct sa_fmt f;

    if (folder >= sizeof(file->temporary))
        return -ENAMETOOLONG;
    memcpy(file->temporary, file->path, folder);
    sa_fmt_init(&f, file->temporary + folder, sizeof(file->temporary) - folder);
    sa_fmt_add(&f, ".salloc.%d.%u.tmp", sa_sys_pid(), sa_add_relaxed(&file_temporary, 1u));
    return f.truncated ? -ENAMETOOLONG : 0;
}

/* The path of a descriptor in /proc. */
static void descriptor_name(int fd, char *buf, size_t cap)
{
    struct sa_fmt f;

    sa_fmt_init(&f, buf, cap);
    sa_fmt_add(&f, "/proc/self/fd/%d", fd);
}

/* Opens a file without a name that can get one later. Returns the descriptor, or a negative errno
 * if the system cannot do that. */
static int open_nameless(const struct sa_file *file, int mode)
{
    char folder[SA_FILE_PATH_MAX], link[64], target[8];
    size_t n = folder_length(file->path);
    int fd;

    memcpy(folder, n ? file->path : "./", n ? n : 2);
    folder[n ? n : 2] = '\0';
    fd = sa_sys_open(folder, O_TMPFILE | O_WRONLY, mode);
    if (fd < 0)
        return fd;
    descriptor_name(fd, link, sizeof(link)); /* the file gets its name by /proc, if there is one */
    if (sa_sys_readlink(link, target, sizeof(target)) < 0) {
        sa_sys_close(fd);
        return -ENOENT;
    }
    return fd;
}

static void file_init(struct sa_file *file)
{
    file->fd = -1;
    file->named = file->placed = file->borrowed = false;
    file->at = file->lines = file->lines_max = 0;
}

void sa_file_begin_descriptor(struct sa_file *file, int fd)
{
    file_init(file);
    file->fd = fd;
    file->borrowed = true;
}

/* Replaces a path by the target of the link at its end. Returns 0 or a negative errno. */
static int follow(char path[SA_FILE_PATH_MAX])
{
    char target[SA_FILE_PATH_MAX];
    long n = sa_sys_readlink(path, target, sizeof(target));
    size_t folder;

    if (n < 0)
        return (int)n;
    folder = target[0] == '/' ? 0 : folder_length(path);
    if (folder + (size_t)n >= SA_FILE_PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(path + folder, target, (size_t)n + 1);
    return 0;
}

/* Whether the folder of a path lies in the file system of processes. False for the current
 * folder. */
static bool is_in_proc(char *path)
{
    size_t n = folder_length(path);
    char kept = path[n];
    bool is;

    path[n] = '\0';
    is = n && sa_sys_file_is_of_proc(path);
    path[n] = kept;
    return is;
}

/*
 * Returns 0 if a new file may take the place of what the path names. It may replace a link to a
 * file, to a folder or to nothing. It may not replace a link into /proc, even if nothing is there
 * now: that was, or will be, an open file.
 */
static int check_place(struct sa_file *file)
{
    char *path = file->temporary; /* a buffer that is not in use yet */
    int mode = sa_sys_file_mode(file->path);

    if (mode == -ENOENT || (mode >= 0 && S_ISREG(mode)))
        return 0;
    if (mode < 0)
        return mode;
    if (!S_ISLNK(mode))
        return S_ISDIR(mode) ? -EISDIR : -EEXIST;
    memcpy(path, file->path, strlen(file->path) + 1);
    for (int i = 0; i < LINKS && mode >= 0 && S_ISLNK(mode); i++) {
        if (is_in_proc(path))
            return -EEXIST;
        mode = follow(path);
        if (!mode && is_in_proc(path))
            return -EEXIST;
        if (!mode)
            mode = sa_sys_file_mode(path);
    }
    return mode < 0 || S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) ? 0 : -EEXIST;
}

int sa_file_begin(struct sa_file *file, const char *path)
{
    return sa_file_begin_as(file, path, 0600);
}

int sa_file_begin_as(struct sa_file *file, const char *path, int mode)
{
    int fd, failed;
    size_t n = strlen(path);

    file_init(file);
    file->limit = sa_sys_file_limit();
    if (n == 0 || path[n - 1] == '/')
        return -EINVAL;
    if (n >= sizeof(file->path))
        return -ENAMETOOLONG;
    memcpy(file->path, path, n + 1);
    failed = check_place(file);
    if (failed)
        return failed;

    fd = open_nameless(file, mode);
    for (int i = 0; i < TRIES && fd < 0; i++) {
        failed = temporary_name(file);
        if (failed)
            return failed;
        fd = sa_sys_open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
        if (fd < 0 && fd != -EEXIST)
            return fd;
        file->named = fd >= 0;
    }
    if (fd < 0)
        return fd;
    file->fd = fd;
    return 0;
}

/* Writes all bytes to a borrowed descriptor. Waits if it is full. */
static int write_descriptor(int fd, const char *from, size_t bytes)
{
    while (bytes) {
        long n = sa_sys_file_write_quiet(fd, from, bytes);

        if (n == -EAGAIN)
            sa_sys_poll(fd, POLLOUT, WAIT_MS);
        if (n == -EINTR || n == -EAGAIN)
            continue;
        if (n <= 0)
            return n ? (int)n : -ENOSPC;
        from += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Writes as many lines as the bound leaves, less one for the line of commit. */
static int write_lines(struct sa_file *file, const char *from, size_t bytes)
{
    size_t n = 0;

    for (size_t i = 0; i < bytes; i++) {
        if (file->lines_max && file->lines + 1 < file->lines_max)
            n = i + 1;
        file->lines += from[i] == '\n';
    }
    return write_descriptor(file->fd, from, file->lines_max ? n : bytes);
}

/* Writes the line that says how many lines are missing, if any are. */
static int commit_descriptor(struct sa_file *file)
{
    char line[100];
    struct sa_fmt f;

    if (!file->lines_max || file->lines < file->lines_max)
        return 0;
    sa_fmt_init(&f, line, sizeof(line));
    sa_fmt_add(&f, "salloc: %zu lines more; a path instead of stderr has them all\n",
               file->lines - (file->lines_max - 1));
    return write_descriptor(file->fd, line, f.len);
}

int sa_file_write(struct sa_file *file, const void *data, size_t bytes)
{
    const char *from = data;

    if (file->borrowed)
        return write_lines(file, from, bytes);
    if (bytes > file->limit || file->at > file->limit - bytes)
        return -EFBIG;
    while (bytes) {
        long n = sa_sys_write(file->fd, from, bytes);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)n : -ENOSPC;
        from += n;
        bytes -= (size_t)n;
        file->at += (uint64_t)n;
    }
    return 0;
}

/*
 * Gives a nameless file its name. If the name is free, one step is enough, and a process that is
 * killed leaves nothing behind. Otherwise the file gets a temporary name: a link cannot replace
 * another file, a rename can.
 */
static int give_name(struct sa_file *file)
{
    char link[64];
    int failed;

    descriptor_name(file->fd, link, sizeof(link));
    failed = sa_sys_link(link, file->path);
    if (failed != -EEXIST) {
        file->placed = !failed;
        return failed;
    }
    for (int i = 0; i < TRIES && failed == -EEXIST; i++) {
        failed = temporary_name(file);
        if (!failed)
            failed = sa_sys_link(link, file->temporary);
    }
    file->named = !failed;
    return failed;
}

int sa_file_commit(struct sa_file *file)
{
    int failed, closed;

    if (file->borrowed)
        return commit_descriptor(file);
    failed = file->named ? 0 : give_name(file);
    closed = sa_sys_close(file->fd); /* some file systems report a failed write only here */
    file->fd = -1;
    if (!failed)
        failed = closed;
    if (!failed && !file->placed)
        failed = sa_sys_rename(file->temporary, file->path);
    if (failed)
        sa_file_abandon(file);
    return failed;
}

void sa_file_abandon(struct sa_file *file)
{
    if (file->fd >= 0 && !file->borrowed)
        sa_sys_close(file->fd);
    if (file->named)
        sa_sys_unlink(file->temporary);
    if (file->placed)
        sa_sys_unlink(file->path);
    file->fd = -1;
    file->named = file->placed = false;
}

int sa_file_check_pattern(const char *pattern)
{
    if (!*pattern)
        return -EINVAL;
    for (; *pattern; pattern++)
        if (*pattern == '%' && (!*++pattern || !strchr("pen%", *pattern)))
            return -EINVAL;
    return 0;
}

bool sa_file_pattern_has_pid(const char *pattern)
{
    for (; *pattern; pattern++)
        if (*pattern == '%' && *++pattern == 'p')
            return true;
    return false;
}

/* Adds the name of the process's executable, without folders. */
static void add_executable(struct sa_fmt *f)
{
    static const char deleted[] = " (deleted)"; /* the kernel adds this once the file is gone */
    char path[SA_FILE_PATH_MAX];
    long n = sa_sys_readlink("/proc/self/exe", path, sizeof(path));
    size_t tail = sizeof(deleted) - 1;

    if (n < 0) {
        sa_fmt_add(f, "unknown");
        return;
    }
    if ((size_t)n > tail && strcmp(path + (size_t)n - tail, deleted) == 0)
        path[(size_t)n - tail] = '\0';
    sa_fmt_add(f, "%s", path + folder_length(path));
}

void sa_file_program_name(char *buf, size_t cap)
{
    struct sa_fmt f;

    sa_fmt_init(&f, buf, cap);
    add_executable(&f);
}

/* Makes a path of a pattern. count: %n takes a new number. */
static int expand(const char *pattern, char *buf, size_t cap, bool count)
{
    int failed = sa_file_check_pattern(pattern);
    struct sa_fmt f;

    if (failed)
        return failed;
    sa_fmt_init(&f, buf, cap);
    for (; *pattern; pattern++) {
        if (*pattern != '%')
            sa_fmt_add(&f, "%c", *pattern);
        else if (*++pattern == 'p')
            sa_fmt_add(&f, "%d", sa_sys_pid());
        else if (*pattern == 'e')
            add_executable(&f);
        else if (*pattern == 'n')
            sa_fmt_add(&f, "%u", sa_add_relaxed(&file_sequence, count) + count);
        else
            sa_fmt_add(&f, "%%");
    }
    return f.truncated ? -ENAMETOOLONG : 0;
}

int sa_file_expand(const char *pattern, char *buf, size_t cap)
{
    return expand(pattern, buf, cap, true);
}

int sa_file_expand_to_try(const char *pattern, char *buf, size_t cap)
{
    return expand(pattern, buf, cap, false);
}
