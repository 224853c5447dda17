/* SPDX-License-Identifier: Apache-2.0 */
/* First-touch latency of hugepages: which of them are left to small pages, because first touches of
 * hugepages are slow. See first_touch.c. The heap's lock is held, except by sa_huge_heap_touch. */
#ifndef SA_PAGE_HEAP_HUGE_FIRST_TOUCH_H
#define SA_PAGE_HEAP_HUGE_FIRST_TOUCH_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/huge/thp_policy.h"
#include "pagemap/span.h"

struct sa_huge_touches {
    /* The hugepage whose first touch is to be timed; 0: none. Atomic, relaxed: also read without
     * the lock. */
    size_t untouched;
    bool small;         /* `untouched` is left to small pages */
    unsigned try_small; /* on this many more such hugepages small pages are timed */
    unsigned withheld;  /* hugepages yet to come that are not advised, */
    unsigned withhold;  /* and of how many */
    unsigned not_timed; /* hugepages yet to come that are advised and not timed */
    size_t to_make_up;  /* hugepages left out for which none was collapsed since */
};

/* True if n hugepages that might be advised are left to small pages. May have the first touch of
 * a hugepage of the filler timed in either case. */
bool sa_huge_heap_thp_withhold(struct sa_huge_heap *h, size_t hugepage, size_t n,
                               enum sa_huge_use use) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The kernel refused advice about the hugepage: its first touch would tell nothing. */
void sa_huge_heap_not_advised(struct sa_huge_heap *h, size_t hugepage)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Makes the first touch of touches.untouched, on which the span lies. The caller has just taken the
 * span, and holds no lock. */
void sa_huge_heap_touch(struct sa_huge_heap *h, const struct sa_span *s)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

/* A hugepage was collapsed. True if it makes up for one that was left out, in a large heap. */
bool sa_huge_heap_makes_up(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
