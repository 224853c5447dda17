/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supply of whole hugepages for the filler, for regions and for large spans: from the cache,
 * from the unbacked ranges or from the system, and back. A hugepage of the filler has a tracker,
 * which comes and goes with it. One that is empty may stay in the filler (last_empty). The heap's
 * lock is held, unless a function says otherwise.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_SUPPLY_H
#define SA_PAGE_HEAP_HUGE_HUGE_SUPPLY_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/huge/thp_policy.h"

struct sa_huge_heap;
struct sa_huge_tracker;

/* A range on its way to the system: taken out under the lock, released without it. */
struct sa_huge_moving {
    size_t hugepage, n; /* n = 0: none */
};

/* Which of the hugepages that were taken are unbacked: all, the last. */
struct sa_huge_fresh {
    bool all, last;
};

/* Hugepages for that many pages, from the cache, the unbacked ranges or the system. Counts as
 * usage. SA_HUGE_NONE: there are none, or a limit forbids them (h->over). */
size_t sa_huge_heap_take(struct sa_huge_heap *h, size_t pages, size_t align, enum sa_huge_use use,
                         struct sa_huge_fresh *ret_fresh) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* n hugepages from the unbacked ranges or the system only, without advice. The caller counts the
 * usage. */
size_t sa_huge_heap_take_released(struct sa_huge_heap *h, size_t n, size_t align)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Touches the records of n hugepages that were mapped, whatever the hugepages become. */
void sa_huge_heap_touch_records(struct sa_huge_heap *h, size_t start, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Maps at least n more, as unbacked ranges. Returns the first of them, or SA_HUGE_NONE. */
size_t sa_huge_heap_grow(struct sa_huge_heap *h, size_t n, size_t align)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Takes back hugepages that nobody uses; zero: they are unbacked. */
void sa_huge_heap_put(struct sa_huge_heap *h, size_t hugepage, size_t n, bool zero)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Makes sure that `more` items can be added (H4). False when out of memory. */
bool sa_huge_heap_ready(struct sa_huge_heap *h, size_t more) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The record for a tracker; NULL when out of memory. */
struct sa_huge_tracker *sa_huge_heap_new_tracker(struct sa_huge_heap *h)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_drop_tracker(struct sa_huge_heap *h, struct sa_huge_tracker *t)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Makes the record the tracker of the hugepage, whose pages from unbacked_from on are unbacked.
 * Adds an item. The caller adds the tracker to the filler. */
void sa_huge_heap_track(struct sa_huge_heap *h, struct sa_huge_tracker *t, size_t hugepage,
                        uint32_t unbacked_from) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Takes an empty hugepage out of the filler. If its release is due, *moving is set, and the caller
 * calls sa_huge_heap_move. */
void sa_huge_heap_evict(struct sa_huge_heap *h, struct sa_huge_tracker *t,
                        struct sa_huge_moving *moving) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* A tracker has become empty: keeps it as last_empty, or evicts it. */
void sa_huge_heap_emptied(struct sa_huge_heap *h, struct sa_huge_tracker *t,
                          struct sa_huge_moving *moving) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Releases the pages of one hugepage that are set in the mask, run by run. Sets those that were
 * released in `done`. False: the kernel refused. The lock is not held. */
bool sa_huge_heap_release_runs(size_t hugepage, const uint64_t *mask, uint64_t *done)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

#endif
