/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks in nanoseconds. The vDSO answers all but the clock of a thread's CPU time. The coarse
 * clock has the resolution of the kernel's tick (1 to 10 ms) and takes a few nanoseconds to read.
 * Any thread and signal handler; no state.
 */
#ifndef SA_OS_CLOCK_H
#define SA_OS_CLOCK_H

#include "alloc/base/attrs.h"
#include "alloc/os/filter.h"
#include "alloc/os/vdso.h"

#include <stdint.h>
#include <time.h>

/* Monotonic time, as of the last tick. */
SA_INLINE uint64_t sa_clock_coarse_ns(void)
{
    return sa_vdso_clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* Monotonic time. */
SA_INLINE uint64_t sa_clock_ns(void)
{
    return sa_vdso_clock_ns(CLOCK_MONOTONIC);
}

/* CPU time of the calling thread, its time in the kernel included: a system call. Behind a filter
 * of system calls, the monotonic clock instead. */
SA_INLINE uint64_t sa_clock_thread_cpu_ns(void)
{
    if (sa_filtered())
        return sa_clock_ns();
    return sa_vdso_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Time since 1970. The administrator may set it back. */
SA_INLINE uint64_t sa_clock_calendar_ns(void)
{
    return sa_vdso_clock_ns(CLOCK_REALTIME);
}

#endif
