/* SPDX-License-Identifier: Apache-2.0 */
/* Doing something every so many seconds, counted from the first time. What takes longer leaves
 * times out, and does not shift them. */
#ifndef SA_TOOL_READING_PACE_H
#define SA_TOOL_READING_PACE_H

#include <time.h>

struct sa_pace {
    struct timespec start;
    double every, next; /* seconds; next: since the start */
};

struct sa_pace sa_pace_begin(double every);

/* Seconds since the start. */
double sa_pace_passed(const struct sa_pace *pace);

/* The next time, and seconds until then. */
double sa_pace_next(struct sa_pace *pace);

/* Waits for the next time. */
void sa_pace_wait(struct sa_pace *pace);

#endif
