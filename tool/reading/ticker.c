/* SPDX-License-Identifier: Apache-2.0 */
/* Waits by the monotonic clock; see ticker.h. */
#include "tool/reading/ticker.h"

#include "tool/base/time.h"

struct sa_ticker sa_ticker_begin(double every)
{
    struct sa_ticker ticker = {.every = every, .next = every};

    clock_gettime(CLOCK_MONOTONIC, &ticker.start);
    return ticker;
}

double sa_ticker_passed(const struct sa_ticker *ticker)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - ticker->start.tv_sec) +
           (double)(now.tv_nsec - ticker->start.tv_nsec) * 1e-9;
}

double sa_ticker_next(struct sa_ticker *ticker)
{
    double passed = sa_ticker_passed(ticker);

    if (passed > ticker->next)
        ticker->next = ticker->every * (double)((long long)(passed / ticker->every) + 1);
    return ticker->next - passed;
}

void sa_ticker_wait(struct sa_ticker *ticker)
{
    sa_time_wait(sa_ticker_next(ticker));
    ticker->next += ticker->every;
}
