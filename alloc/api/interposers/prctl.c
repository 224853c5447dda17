/* SPDX-License-Identifier: Apache-2.0 */
/* Exports prctl; see prctl.h. */
#include "alloc/api/interposers/prctl.h"

#include "alloc/api/control/background.h"
#include "alloc/api/control/control.h"
#include "alloc/api/interposers/dlsym.h"
#include "alloc/api/interposers/mark_calls.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"
#include "alloc/os/loader.h"
#include "alloc/output/stderr_file.h"
#include "alloc/os/thread.h"
#include "pagemap/pagemap.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* Linux 5.17: names pages */
#endif

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

void sa_prctl_filter_comes(void)
{
    if (!sa_thread_is_vfork_child())
        sa_stderr_file_may(false); /* may not be asked later */
    sa_filter_note();
    sa_background_leave();
    sa_control_leave();
    sa_pagemap_open_all();
}

void sa_prctl_note(int option, unsigned long a, unsigned long b, unsigned long c)
{
    if ((option == PR_SET_NO_NEW_PRIVS && a) || option == PR_SET_SECCOMP)
        sa_prctl_filter_comes();
    else if (option == PR_SET_VMA)
        sa_mark_calls_note(b, c);
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
    sa_prctl_note(option, with.a[0], with.a[1], with.a[2]);
    next = (prctl_function)sa_loader_interposer(&interposer, "prctl");
    if (next)
        return next(option, with.a[0], with.a[1], with.a[2], with.a[3]);
    return prctl_call(option, &with);
}

int sa_direct_prctl(int option, ...)
{
    struct arguments with;

    READ_ARGUMENTS(with, option);
    sa_prctl_note(option, with.a[0], with.a[1], with.a[2]);
    return prctl_call(option, &with);
}
