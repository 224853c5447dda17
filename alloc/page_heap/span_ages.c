/* SPDX-License-Identifier: Apache-2.0 */
/* Counting free runs by length and age; see span_ages.h. */
#include "alloc/page_heap/span_ages.h"

static const uint32_t age_ends_s[SA_AGES - 1] = {1, 30, 60, 1800, 3600, 28800};

void sa_span_ages_add(struct sa_span_ages *ages, size_t pages, bool released, uint64_t idle_ns)
{
    struct sa_age_row *rows = released ? ages->released : ages->backed;
    struct sa_age_row *row = &rows[pages < SA_AGE_LENGTHS ? pages : 0];
    unsigned age = 0;

    while (age < SA_AGES - 1 && idle_ns >= age_ends_s[age] * 1000000000ull)
        age++;
    row->spans++;
    row->pages += pages;
    row->idle_s += (double)pages * ((double)idle_ns * 1e-9);
    row->pages_of_age[age] += pages;
}
