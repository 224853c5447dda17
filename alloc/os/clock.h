/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks, answered by the vDSO but for one. The coarse clock has the resolution of the kernel's
 * tick (1 to 10 ms) and takes a few nanoseconds to read. */
#ifndef SA_OS_CLOCK_H
#define SA_OS_CLOCK_H

#include "alloc/base/attrs.h"
#include "alloc/os/filter.h"
#include "alloc/os/vdso.h"

#include <stdint.h>
#include <time.h>

SA_INLINE uint64_t sa_clock_coarse_ns(void)
{
    return sa_vdso_clock_ns(CLOCK_MONOTONIC_COARSE);
}

SA_INLINE uint64_t sa_clock_ns(void)
{
    return sa_vdso_clock_ns(CLOCK_MONOTONIC);
}

/* Of the calling thread, in the kernel too: a system call. Behind a filter, the time that has
 * passed. */
SA_INLINE uint64_t sa_clock_thread_cpu_ns(void)
{
    if (sa_filtered())
        return sa_clock_ns();
    return sa_vdso_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Since 1970. */
SA_INLINE uint64_t sa_clock_calendar_ns(void)
{
    return sa_vdso_clock_ns(CLOCK_REALTIME);
}

#endif
