/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks and waits. No state. */
#ifndef SA_TOOL_BASE_TIME_H
#define SA_TOOL_BASE_TIME_H

#include <stdint.h>
#include <time.h>

/* The time of a clock, in nanoseconds. */
int64_t sa_time_ns(clockid_t clock);

/* The same of CLOCK_MONOTONIC in seconds, for deadlines and durations. */
double sa_time_seconds(void);

/* Waits until a time of CLOCK_MONOTONIC, whatever signals come. */
void sa_time_wait_until(int64_t ns);

/* Waits for so many seconds from now on. */
void sa_time_wait(double seconds);

#endif
