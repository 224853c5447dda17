/* SPDX-License-Identifier: Apache-2.0 */
/* Counting free runs by length and age; see span_ages.h. */
#include "alloc/page_heap/account/span_ages.h"

static const uint32_t age_ends_s[SA_AGES - 1] = {1, 30, 60, 1800, 3600, 28800};

SA_RARE struct sa_idle sa_span_ages_idle(uint64_t ns)
{
    struct sa_idle idle = {.seconds = (double)ns * 1e-9, .age = 0};

    while (idle.age < SA_AGES - 1 && ns >= age_ends_s[idle.age] * 1000000000ull)
        idle.age++;
    return idle;
}
