/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that are complete or not there; see file.h. A struct sa_file belongs to its caller. */
#include "alloc/output/file.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fmt.h"
#include "alloc/os/own_proc.h"
#include "alloc/os/socket.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

static uint32_t file_temporary; /* atomic, relaxed: the next number in a temporary name */

#define WAIT_MS 1000 /* of waiting for a descriptor that does not block, before the next try */
#define LINKS   40   /* the most symbolic links that are followed, as in the kernel */
#define DIGITS  7    /* the most of a descriptor in a path */

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
    sa_fmt_add(&f, "%s/fd/%d", sa_own_proc(), fd);
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
    file->named = file->placed = file->borrowed = file->direct = false;
    file->at = file->lines = file->lines_max = 0;
}

/* Replaces file->path by the target of the link at its end. Returns 0 or a negative errno. */
static int follow(struct sa_file *file)
{
    char *target = file->temporary; /* a buffer that is not in use yet */
    long n = sa_sys_readlink(file->path, target, sizeof(file->temporary));
    size_t folder;

    if (n < 0)
        return (int)n;
    folder = target[0] == '/' ? 0 : folder_length(file->path);
    if (folder + (size_t)n >= sizeof(file->path))
        return -ENAMETOOLONG;
    memcpy(file->path + folder, target, (size_t)n + 1);
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

int sa_file_descriptor_of(const char *path)
{
    static const char folders[][24] = {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"};
    static const char names[][12] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    int n = 0;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(path, names[i]) == 0)
            return (int)i;
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        const char *p = path + strlen(folders[i]), *start = p;

        if (strncmp(path, folders[i], strlen(folders[i])) != 0)
            continue;
        for (; *p >= '0' && *p <= '9' && p - start < DIGITS; p++)
            n = n * 10 + (*p - '0');
        return *p || p == start ? -1 : n;
    }
    return -1;
}

int sa_file_check_descriptor(int fd)
{
    int flags = sa_sys_file_flags(fd);

    if (flags < 0)
        return flags;
    return (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) ? -EBADF : 0;
}

/* What a path names, in the end. */
enum place {
    PLACE_FILE,       /* a regular file, or nothing yet: a new file takes the place */
    PLACE_OPEN,       /* a device or a pipe, which is opened and written to */
    PLACE_SOCKET,     /* the same, by a connection */
    PLACE_DESCRIPTOR, /* a descriptor of this process */
};

/* The place of a link in the file system of processes, which leads to an open file even where its
 * text names nothing. Returns a place, or a negative errno. */
static int place_in_proc(const struct sa_file *file)
{
    int fd = sa_sys_open(file->path, O_PATH, 0), mode;

    if (fd < 0)
        return fd;
    mode = sa_sys_open_mode(fd);
    sa_sys_close(fd);
    if (mode < 0)
        return mode;
    if (S_ISDIR(mode))
        return -EISDIR;
    return S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode) ? PLACE_OPEN : -EEXIST;
}

/*
 * Follows the links at the end of file->path, which becomes the path of what they lead to. Returns
 * a place, or a negative errno. A link of a user who is neither this process's nor root is not
 * followed (-ELOOP): whoever may make links in the folder could have any file replaced.
 */
static int find_place(struct sa_file *file)
{
    for (int i = 0; i < LINKS; i++) {
        int mode, failed;

        if (sa_file_descriptor_of(file->path) >= 0)
            return PLACE_DESCRIPTOR;
        mode = sa_sys_file_mode(file->path);
        if (mode == -ENOENT || (mode >= 0 && S_ISREG(mode)))
            return PLACE_FILE;
        if (mode < 0)
            return mode;
        if (S_ISDIR(mode))
            return -EISDIR;
        if (S_ISSOCK(mode))
            return PLACE_SOCKET;
        if (!S_ISLNK(mode))
            return PLACE_OPEN;
        if (is_in_proc(file->path))
            return place_in_proc(file);
        if (!sa_sys_file_is_trusted(file->path))
            return -ELOOP;
        failed = follow(file);
        if (failed)
            return failed;
    }
    return -ELOOP;
}

int sa_file_begin(struct sa_file *file, const char *path)
{
    return sa_file_begin_as(file, path, 0600, false);
}

/* Begins to write to a descriptor as it is. */
static void begin_direct(struct sa_file *file, int fd, bool borrowed)
{
    file->fd = fd;
    file->direct = true;
    file->borrowed = borrowed;
}

void sa_file_begin_descriptor(struct sa_file *file, int fd)
{
    file_init(file);
    begin_direct(file, fd, true);
}

/* Begins to write to a device, a pipe or a socket. waits: for the reader of a pipe. */
static int begin_open(struct sa_file *file, enum place place, bool waits)
{
    int flags = O_WRONLY | O_NOCTTY | (waits ? 0 : O_NONBLOCK), fd, mode;

    if (place == PLACE_DESCRIPTOR) {
        begin_direct(file, sa_file_descriptor_of(file->path), true);
        return sa_file_check_descriptor(file->fd);
    }
    fd = place == PLACE_SOCKET ? sa_socket_connect(file->path, waits)
                               : sa_sys_open(file->path, flags, 0);
    if (fd < 0)
        return fd;
    mode = sa_sys_open_mode(fd);
    if (mode < 0 || S_ISREG(mode)) { /* another process has put a file there meanwhile */
        sa_sys_close(fd);
        return mode < 0 ? mode : -EBUSY;
    }
    begin_direct(file, fd, false);
    return 0;
}

/* Begins a new file, at the end of all links. */
static int begin_new(struct sa_file *file, int mode)
{
    int fd = open_nameless(file, mode), failed;

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

/* Stores a path in the file, and finds its place. */
static int begin_path(struct sa_file *file, const char *path)
{
    size_t n = strlen(path);

    file_init(file);
    if (n == 0 || path[n - 1] == '/')
        return -EINVAL;
    if (n >= sizeof(file->path))
        return -ENAMETOOLONG;
    memcpy(file->path, path, n + 1);
    return find_place(file);
}

int sa_file_begin_as(struct sa_file *file, const char *path, int mode, bool waits)
{
    int place = begin_path(file, path);

    if (place < 0)
        return place;
    if (place != PLACE_FILE)
        return begin_open(file, (enum place)place, waits);
    file->limit = sa_sys_file_limit();
    return begin_new(file, mode);
}

int sa_file_try(struct sa_file *file, const char *path)
{
    int place = begin_path(file, path), failed;

    if (place != PLACE_FILE)
        return place < 0 ? place : 0;
    file->limit = sa_sys_file_limit();
    failed = begin_new(file, 0600);
    if (!failed)
        sa_file_abandon(file);
    return failed;
}

bool sa_file_is_direct(struct sa_file *file, const char *path)
{
    return begin_path(file, path) > PLACE_FILE;
}

int sa_file_leads_to(struct sa_file *file, const char *path)
{
    return begin_path(file, path) == PLACE_DESCRIPTOR ? sa_file_descriptor_of(file->path) : -1;
}

/* Writes all bytes to what is written to as it is. Waits if it is full. */
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

    if (file->direct)
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

/* Returns 0 if what has the file's name may still be replaced. */
static int check_replaced(const struct sa_file *file)
{
    int mode = sa_sys_file_mode(file->path);

    return mode == -ENOENT || (mode >= 0 && S_ISREG(mode)) ? 0 : mode < 0 ? mode : -EEXIST;
}

int sa_file_commit(struct sa_file *file)
{
    int failed, closed;

    if (file->direct) {
        failed = commit_descriptor(file);
        closed = file->borrowed ? 0 : sa_sys_close(file->fd);
        file->fd = -1;
        return failed ? failed : closed;
    }
    failed = file->named ? 0 : give_name(file);
    closed = sa_sys_close(file->fd); /* some file systems report a failed write only here */
    file->fd = -1;
    if (!failed)
        failed = closed;
    if (!failed && !file->placed)
        failed = check_replaced(file);
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
