/* SPDX-License-Identifier: Apache-2.0 */
/* This process in /proc; see own_proc.h. */
#include "alloc/os/own_proc.h"

#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/sys.h"

#include <errno.h>
#include <fcntl.h>

#define PATH_BYTES 64

SA_RARE const char *sa_own_proc(void)
{
    int fd;

    if (sa_sys_is_first_thread())
        return "/proc/self";
    /* The program's file is that of the memory, which a thread that has ended has no more. */
    fd = sa_sys_open("/proc/self/exe", O_PATH, 0);
    if (fd >= 0)
        sa_sys_close(fd);
    return fd == -ENOENT ? "/proc/thread-self" : "/proc/self";
}

static void make_path(const char *name, char ret[PATH_BYTES])
{
    struct sa_fmt f;

    sa_fmt_init(&f, ret, PATH_BYTES);
    sa_fmt_add(&f, "%s/%s", sa_own_proc(), name);
    SA_DCHECK(!f.truncated);
}

int sa_own_proc_open(const char *name)
{
    char path[PATH_BYTES];

    make_path(name, path);
    return sa_sys_open(path, O_RDONLY, 0);
}

long sa_own_proc_read(const char *name, char *buf, size_t cap)
{
    char path[PATH_BYTES];

    make_path(name, path);
    return sa_sys_read_file(path, buf, cap);
}

long sa_own_proc_link(const char *name, char *buf, size_t cap)
{
    char path[PATH_BYTES];

    make_path(name, path);
    return sa_sys_readlink(path, buf, cap);
}
