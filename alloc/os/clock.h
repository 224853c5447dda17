/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic time, at the resolution of the kernel's tick (1 to 10 ms): a few nanoseconds to read. */
#ifndef SA_OS_CLOCK_H
#define SA_OS_CLOCK_H

#include "alloc/base/attrs.h"

#include <stdint.h>
#include <time.h>

SA_INLINE uint64_t sa_clock_coarse_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
