/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl, exported to notice a filter of system calls before the program installs it. A process
 * without privileges has to set PR_SET_NO_NEW_PRIVS first, whether it then installs the filter by
 * prctl or by seccomp.
 *
 * The system call that the program asked for is made unchanged, but not through libc's function:
 * children of vfork and of threaded programs call prctl, too. No variables.
 */
#include "alloc/api/background.h"
#include "alloc/api/control.h"
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"
#include "alloc/os/stderr_file.h"
#include "alloc/os/thread.h"
#include "pagemap/pagemap.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>

SA_EXPORT int prctl(int option, ...)
{
    unsigned long a[4];
    va_list ap;
    long result;

    va_start(ap, option);
    for (int i = 0; i < 4;
         i++) /* libc's prctl reads four as well, whether or not the caller has passed them */
        a[i] = va_arg(ap, unsigned long);
    va_end(ap);
    if ((option == PR_SET_NO_NEW_PRIVS && a[0]) ||
        option == PR_SET_SECCOMP) { /* while no filter is installed yet */
        if (!sa_thread_is_vfork_child())
            sa_stderr_file_may(); /* may not be asked later */
        sa_filter_note();
        sa_background_leave();
        sa_control_leave();
        sa_pagemap_open_all();
    }
    result = sa_syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
    if (!sa_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}
