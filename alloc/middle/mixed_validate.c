/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the mixed spans; mixed_internal.h has the invariants. */
#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/mixed_internal.h"

/* Checks X6 for a block. Adds it to the guests, or to the blocks of hosts. */
static void host_check(unsigned cls, uintptr_t block, int64_t *guests, size_t *of_hosts)
    SA_REQUIRES(SA_RANK_MIXED)
{
    const struct sa_mixed_host *host = sa_mixed_host(block);

    SA_CHECK(host->blocks);
    if (host->cls == cls) {
        ++*of_hosts;
        return;
    }
    guests[cls] += (int64_t)sa_size_classes.of[cls].size;
    guests[host->cls] -= (int64_t)sa_size_classes.of[cls].size;
}

/* Checks X1, X2, X3, X5 and X6 for a record. Adds its blocks to the guests. */
static void mixed_check(struct sa_mixed *m, unsigned bin, int64_t *guests)
    SA_REQUIRES(SA_RANK_MIXED)
{
    struct sa_mixed_walk walk = {.pages = m->pages, .units = m->units};
    size_t used = 0, end = 0, longest = 0, of_hosts = 0;

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
        host_check(sa_size_class_find(units * SA_MIXED_UNIT), m->span->start + at * SA_MIXED_UNIT,
                   guests, &of_hosts);
    }
    for (size_t page = 0; page < m->span->pages; page++)
        of_hosts -= sa_mixed_host(m->span->start + page * SA_PAGE_BYTES)->blocks;
    SA_CHECK(of_hosts == 0);
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
    size_t spans = 0, bytes = 0, used = 0, of_classes = 0, saved = 0;
    int64_t guests[SA_CLASSES_MAX] = {0};

    sa_lock_acquire(&sa_mixed_state.lock, SA_RANK_MIXED);
    for (unsigned bin = 0; bin < SA_MIXED_BINS; bin++) {
        SA_CHECK((sa_mixed_state.filled[bin / 64] >> bin % 64 & 1) ==
                 (sa_mixed_state.bins[bin] != NULL));
        for (struct sa_mixed *m = sa_mixed_state.bins[bin]; m; m = m->next) {
            mixed_check(m, bin, guests);
            SA_CHECK(!m->next || m->next->prev == m);
            spans++;
            bytes += sa_span_bytes(m->span);
            used += m->used * SA_MIXED_UNIT;
        }
    }
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        of_classes += (size_t)sa_mixed_state.objects[cls] * sa_size_classes.of[cls].size;
        SA_CHECK(guests[cls] == sa_mixed_state.guests[cls]);
        saved += guests[cls] > 0 ? (size_t)guests[cls] : 0;
    }
    SA_CHECK(saved == sa_mixed_state.stats.saved_bytes);
    SA_CHECK(spans == sa_mixed_state.stats.spans && bytes == sa_mixed_state.stats.bytes);
    SA_CHECK(used == sa_mixed_state.stats.used_bytes && of_classes == used);
    sa_lock_release(&sa_mixed_state.lock, SA_RANK_MIXED);
}
