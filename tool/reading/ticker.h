/* SPDX-License-Identifier: Apache-2.0 */
/* Doing something every so many seconds, counted from the first time. What takes longer leaves
 * times out, and does not shift them. */
#ifndef SA_TOOL_READING_TICKER_H
#define SA_TOOL_READING_TICKER_H

#include <time.h>

struct sa_ticker {
    struct timespec start;
    double every, next; /* seconds; next: since the start */
};

struct sa_ticker sa_ticker_begin(double every);

/* Seconds since the start. */
double sa_ticker_passed(const struct sa_ticker *ticker);

/* The next time, and seconds until then. */
double sa_ticker_next(struct sa_ticker *ticker);

/* Waits for the next time. */
void sa_ticker_wait(struct sa_ticker *ticker);

#endif
