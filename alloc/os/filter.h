/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records whether the process has installed a filter of system calls (seccomp). Such a filter
 * usually knows which calls the program makes after its start, and may end the process at any other
 * call. Once a filter is known, the library makes only the calls of the list in
 * doc/compatibility.md, unless the program asks for more.
 *
 * Three things reveal a filter: prctl, which the library exports (alloc/api/interposers/prctl.c);
 * the option `filtered`; and a call beyond the list that fails with EPERM or ENOSYS. A filter from
 * before the program was executed is not noticed. It allows at least the calls that libc needs at
 * its start.
 */
#ifndef SA_OS_FILTER_H
#define SA_OS_FILTER_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/os/thread.h"

#include <errno.h>
#include <stdbool.h>

extern unsigned char sa_filter_known; /* atomic, relaxed: 1 once a filter is known; never 0 again */

/* Whether this thread must not make calls beyond the list. Asked before each such call. */
SA_INLINE bool sa_filtered(void)
{
    return SA_UNLIKELY((sa_load_relaxed(&sa_filter_known) | sa_thread.area.filtered) != 0);
}

/* Notes that there is a filter. A child of vfork notes its filter for its thread only: it runs in
 * the memory of its parent, which has no filter. sa_vfork_end removes that note. */
SA_INLINE void sa_filter_note(void)
{
    if (SA_UNLIKELY(sa_thread_is_vfork_child()))
        sa_thread.area.filtered = 1;
    else
        sa_store_relaxed(&sa_filter_known, 1);
}

/* Takes the result of a call beyond the list, notes a filter if it shows one, and returns it. */
SA_INLINE long sa_filter_result(long result)
{
    if (SA_UNLIKELY(result == -EPERM || result == -ENOSYS))
        sa_filter_note();
    return result;
}

#endif
