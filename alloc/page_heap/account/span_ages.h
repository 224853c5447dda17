/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free runs of pages, counted by length and by idle time. A report fills it from scratch. There is
 * no state and no lock: the caller holds the lock of the pages that it counts.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_SPAN_AGES_H
#define SA_PAGE_HEAP_ACCOUNT_SPAN_AGES_H

#include "alloc/base/attrs.h"

#include <stddef.h>
#include <stdint.h>

#define SA_AGES        7   /* up to 1 s, 30 s, 1 min, 30 min, 1 h, 8 h, and longer */
#define SA_AGE_LENGTHS 128 /* row n is for runs of n pages, row 0 for those of 128 and more */

struct sa_age_row {
    size_t spans, pages;
    double idle_s; /* sum over pages; divided by pages it is the mean age */
    size_t pages_of_age[SA_AGES];
};

struct sa_span_ages {
    struct sa_age_row backed[SA_AGE_LENGTHS], released[SA_AGE_LENGTHS];
};

/* An idle time, converted for counting. */
struct sa_idle {
    double seconds;
    unsigned age; /* column of a row */
};

struct sa_idle sa_span_ages_idle(uint64_t ns);

/* Counts one run that has been idle for this time, in the rows of its state. */
SA_INLINE void sa_span_ages_add(struct sa_age_row *rows, size_t pages, struct sa_idle idle)
{
    struct sa_age_row *row = &rows[pages < SA_AGE_LENGTHS ? pages : 0];

    row->spans++;
    row->pages += pages;
    row->idle_s += (double)pages * idle.seconds;
    row->pages_of_age[idle.age] += pages;
}

#endif
