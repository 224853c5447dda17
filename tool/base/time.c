/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and waits; see time.h. */
#include "tool/base/time.h"

#include <errno.h>

#define SECOND 1000000000

int64_t sa_time_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

double sa_time_seconds(void)
{
    return (double)sa_time_ns(CLOCK_MONOTONIC) * 1e-9;
}

void sa_time_wait_until(int64_t ns)
{
    struct timespec end = {ns / SECOND, ns % SECOND};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

void sa_time_wait(double seconds)
{
    sa_time_wait_until(sa_time_ns(CLOCK_MONOTONIC) + (int64_t)(seconds * SECOND));
}
