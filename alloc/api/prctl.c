/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prctl, exported to learn of filters of system calls: a process that may not do everything has to
 * ask for PR_SET_NO_NEW_PRIVS before it sets up a filter, by prctl or by seccomp. The call itself
 * is what libc's is, made without libc's, because children of vfork and of threaded programs call
 * it.
 */
#include "alloc/base/attrs.h"
#include "alloc/base/syscall.h"
#include "alloc/os/filter.h"
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
    for (int i = 0; i < 4; i++) /* libc reads as many, too, given or not */
        a[i] = va_arg(ap, unsigned long);
    va_end(ap);
    if ((option == PR_SET_NO_NEW_PRIVS && a[0]) ||
        option == PR_SET_SECCOMP) { /* before there is one */
        sa_filter_note();
        sa_pagemap_open_all();
    }
    result = sa_syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
    if (!sa_syscall_failed(result))
        return (int)result;
    errno = (int)-result;
    return -1;
}
