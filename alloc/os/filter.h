/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process has a filter of system calls (seccomp) that it has set up itself. Such a
 * filter usually knows which calls the program makes after start, and may end the process at any
 * other. From then on the library makes, unasked, only the calls of the list in
 * doc/compatibility.md.
 *
 * Three things tell of a filter: prctl, which the library exports (alloc/api/prctl.c), the option
 * `filtered`, and a call beyond the list that is refused with EPERM or ENOSYS. A filter that was
 * there before the program was executed is not noticed: it lets at least pass what libc needs at
 * start.
 */
#ifndef SA_OS_FILTER_H
#define SA_OS_FILTER_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/os/thread.h"

#include <errno.h>
#include <stdbool.h>

extern unsigned char sa_filter_known; /* atomic, relaxed: 0 becomes 1, once */

/* Before each call beyond the list. */
SA_INLINE bool sa_filtered(void)
{
    return SA_UNLIKELY((sa_load_relaxed(&sa_filter_known) | sa_thread.area.filtered) != 0);
}

/* A child of vfork has the memory of its parent, to which the filter does not apply: it notes it
 * for its thread, and sa_vfork_end forgets it. */
SA_INLINE void sa_filter_note(void)
{
    if (SA_UNLIKELY(sa_thread_is_vfork_child()))
        sa_thread.area.filtered = 1;
    else
        sa_store_relaxed(&sa_filter_known, 1);
}

/* The result of a call beyond the list, which is returned. */
SA_INLINE long sa_filter_result(long result)
{
    if (SA_UNLIKELY(result == -EPERM || result == -ENOSYS))
        sa_filter_note();
    return result;
}

#endif
