/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl, exported to notice a filter of system calls before the program installs it. A process
 * without privileges has to set PR_SET_NO_NEW_PRIVS first, whether it then installs the filter by
 * prctl or by seccomp.
 *
 * The call goes on unchanged: to an interposer behind this library, or else as the system call. It
 * does not go through libc's function, because children of vfork and of threaded programs call
 * prctl, too. No variables but the cache of a lookup.
 */
#include "alloc/api/background.h"
#include "alloc/api/control.h"
#include "alloc/api/dlsym.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"
#include "alloc/os/loader.h"
#include "alloc/os/stderr_file.h"
#include "alloc/os/thread.h"
#include "pagemap/pagemap.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

typedef int (*prctl_function)(int, ...);

static void *interposer; /* sa_loader_interposer */

/* The arguments after the option. libc's prctl reads four as well, whether or not the caller has
 * passed them. */
struct arguments {
    unsigned long a[4];
};

#define READ_ARGUMENTS(ret, last)                                                                  \
    do {                                                                                           \
        va_list ap;                                                                                \
                                                                                                   \
        va_start(ap, last);                                                                        \
        for (int i = 0; i < 4; i++)                                                                \
            (ret).a[i] = va_arg(ap, unsigned long);                                                \
        va_end(ap);                                                                                \
    } while (0)

/* Prepares for a filter while none is installed yet. */
static void prctl_note(int option, const struct arguments *with)
{
    if ((option != PR_SET_NO_NEW_PRIVS || !with->a[0]) && option != PR_SET_SECCOMP)
        return;
    if (!sa_thread_is_vfork_child())
        sa_stderr_file_may(); /* may not be asked later */
    sa_filter_note();
    sa_background_leave();
    sa_control_leave();
    sa_pagemap_open_all();
}

static int prctl_call(int option, const struct arguments *with)
{
    long result = sa_syscall(SYS_prctl, option, with->a[0], with->a[1], with->a[2], with->a[3]);

    if (!sa_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}

SA_EXPORT int prctl(int option, ...)
{
    prctl_function next;
    struct arguments with;

    READ_ARGUMENTS(with, option);
    prctl_note(option, &with);
    next = (prctl_function)sa_loader_interposer(&interposer, "prctl");
    if (next)
        return next(option, with.a[0], with.a[1], with.a[2], with.a[3]);
    return prctl_call(option, &with);
}

int sa_direct_prctl(int option, ...)
{
    struct arguments with;

    READ_ARGUMENTS(with, option);
    prctl_note(option, &with);
    return prctl_call(option, &with);
}
