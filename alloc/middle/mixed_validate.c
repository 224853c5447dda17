/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the mixed spans; mixed_internal.h has the invariants. */
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/mixed_internal.h"

/* Checks X1, X2, X3 and X5 for a record. */
static void mixed_check(struct sa_mixed *m, unsigned bin) SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed_walk walk = {.pages = m->pages, .units = m->units};
    size_t used = 0, end = 0, longest = 0;

    SA_CHECK(m->span && m->span->mixed == m && m->span->state == SA_SPAN_MIXED);
    SA_CHECK(m->units == m->span->pages * SA_MIXED_PAGE_UNITS);
    SA_CHECK(m->pages == sa_mixed_table(m->span->start, false));
    SA_CHECK(!sa_mixed_neighbour(m->span, sa_span_end(m->span)));
    for (size_t at = sa_mixed_next_first(m->pages, m->units, 0); at < m->units;
         at = sa_mixed_next_first(m->pages, m->units, at + 1)) {
        size_t units = sa_mixed_length(m->pages, m->units, at);

        SA_CHECK(at >= end && units && at + units <= m->units);
        end = at + units;
        SA_CHECK(sa_mixed_end_before(m->pages, end - 1) <= at); /* one end for each beginning */
        used += units;
    }
    SA_CHECK(sa_mixed_end_before(m->pages, m->units) == end);
    SA_CHECK(used && used == m->used);
    while (sa_mixed_run(&walk)) {
        longest = sa_max(longest, walk.end - walk.begin);
        SA_CHECK(m->runs[walk.begin / SA_MIXED_PAGE_UNITS] >= walk.end - walk.begin);
    }
    SA_CHECK(longest == m->longest && m->bin == bin && sa_mixed_bin_of(longest) == bin);
}

void sa_mixed_validate(void)
{
    size_t spans = 0, bytes = 0, used = 0, of_classes = 0;

    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    for (unsigned bin = 0; bin < SA_MIXED_BINS; bin++) {
        SA_CHECK((sa_mixed_state.filled[bin / 64] >> bin % 64 & 1) ==
                 (sa_mixed_state.bins[bin] != NULL));
        for (struct sa_mixed *m = sa_mixed_state.bins[bin]; m; m = m->next) {
            mixed_check(m, bin);
            SA_CHECK(!m->next || m->next->prev == m);
            spans++;
            bytes += sa_span_bytes(m->span);
            used += m->used * SA_MIXED_UNIT;
        }
    }
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        of_classes += (size_t)sa_mixed_state.objects[cls] * sa_size_classes.of[cls].size;
    SA_CHECK(spans == sa_mixed_state.stats.spans && bytes == sa_mixed_state.stats.bytes);
    SA_CHECK(used == sa_mixed_state.stats.used_bytes && of_classes == used);
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
}
