/* SPDX-License-Identifier: Apache-2.0 */
/* Waits by the monotonic clock; see pace.h. */
#include "tool/reading/pace.h"

#include "tool/base/time.h"

struct sa_pace sa_pace_begin(double every)
{
    struct sa_pace pace = {.every = every, .next = every};

    clock_gettime(CLOCK_MONOTONIC, &pace.start);
    return pace;
}

double sa_pace_passed(const struct sa_pace *pace)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - pace->start.tv_sec) +
           (double)(now.tv_nsec - pace->start.tv_nsec) * 1e-9;
}

double sa_pace_next(struct sa_pace *pace)
{
    double passed = sa_pace_passed(pace);

    if (passed > pace->next)
        pace->next = pace->every * (double)((long long)(passed / pace->every) + 1);
    return pace->next - passed;
}

void sa_pace_wait(struct sa_pace *pace)
{
    sa_time_wait(sa_pace_next(pace));
    pace->next += pace->every;
}
