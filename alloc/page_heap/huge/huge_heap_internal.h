/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hugepage-aware page heap as its own files see it: the struct, its invariants, and its sums.
 * huge_heap.c routes requests. A span lies in the filler (huge_filler.h), in a region
 * (huge_regions.h), or on hugepages of its own (huge_large_spans.h), whose tail the filler may
 * share. The supply (huge_supply.h) gives whole hugepages to these three.
 *
 * Invariants, under the lock (PAGE_HEAP):
 *   H1  A mapped hugepage is in exactly one place: `released` (unbacked), the cache (backed), the
 *       filler, a region, a large span's own part, or moving (a thread is releasing it).
 *   H2  The hugepage map's entry of a hugepage is its tracker, its region, or empty. It is empty
 *       for hugepages of large spans, and for cached, released and moving ones.
 *   H3  The radix map's entries for the first and last page of every span in use point to it. Free
 *       memory has no spans; entries there are stale.
 *   H4  Unused nodes of the trees are at least as many as `items`: each large span, tracker, region
 *       and moving range may become one free range without asking for memory.
 *   H5  The span freed last (`recent`) may wait for its component to get it back, because it is
 *       often asked for again at once. Its state is MOVING, and for the components it is in use.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_HEAP_INTERNAL_H
#define SA_PAGE_HEAP_HUGE_HUGE_HEAP_INTERNAL_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/heap_space.h"
#include "alloc/page_heap/huge/first_touch.h"
#include "alloc/page_heap/huge/huge_cache.h"
#include "alloc/page_heap/huge/huge_filler.h"
#include "alloc/page_heap/huge/huge_heap.h"
#include "alloc/page_heap/huge/huge_region.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/hugepage_map.h"
#include "alloc/page_heap/huge/thp_policy.h"

/* Spans of up to this many pages always lie in the filler. */
#define SA_HUGE_SMALL_PAGES (SA_HUGE_PAGES / 2)

/* Pages in use of a heap for which hugepages matter most: 512 MiB. */
#define SA_HUGE_LARGE_HEAP (512ul << 20 >> SA_PAGE_SHIFT)

/* From here on less is kept after a fall in pages in use, which is therefore counted
 * (huge_heap_surplus.c): 48 MiB. */
#define SA_COUNTED_FALL (48ul << 20 >> SA_PAGE_SHIFT)

/* The kernel has no memory at hand for a hugepage that takes this long, at its first touch or when
 * it is collapsed: 1 ms. It takes 0.1 to 0.2 ms otherwise, and where a host must find the memory,
 * 3 to 6 ms. */
#define SA_HUGE_SLOW_NS 1000000

/* The progress of a collapse round (thp_collapse.c): the hugepages of the filler's queue that are
 * left, and the components that are done. */
struct sa_collapse_round {
    size_t queued;
    bool begun, regions, large;
};

/* Kinds of idle pages: of cached hugepages, of regions, of the filler. */
enum { SA_IDLE_CACHED, SA_IDLE_REGIONS, SA_IDLE_FILLER, SA_IDLE_KINDS };

/* What the heap's lock guards. */
#define SA_LOCKED SA_GUARDED_BY(SA_RANK_PAGE_HEAP)

struct sa_huge_heap {
    struct sa_lock lock;      /* PAGE_HEAP */
    uint8_t number;           /* const after init */
    enum sa_hugepages choice; /* the user's; const after init */
    uint64_t freed_bytes;     /* atomic, relaxed for readers */

    struct sa_heap_space space; /* the lock guards it, but for the name, which is const */
    struct sa_huge_nodes nodes SA_LOCKED;
    struct sa_huge_map released SA_LOCKED; /* the address map: free, unbacked hugepages */
    struct sa_huge_cache cache SA_LOCKED;
    struct sa_huge_region *regions SA_LOCKED, *unused_regions SA_LOCKED;
    struct sa_huge_tracker *unused_trackers SA_LOCKED;
    struct sa_huge_tracker *fresh_trackers SA_LOCKED; /* fresh_count of them, side by side */
    unsigned fresh_count SA_LOCKED;
    struct sa_huge_tracker *last_empty SA_LOCKED; /* last seen empty; stays in the filler */
    struct sa_span *recent SA_LOCKED;             /* H5 */
    bool flushed SA_LOCKED; /* a component got a span back since sa_huge_heap_settle */
    struct sa_span *unused_spans SA_LOCKED;
    struct sa_span *large_spans SA_LOCKED;
    size_t items SA_LOCKED;                    /* H4 */
    size_t mapped SA_LOCKED, moving SA_LOCKED; /* hugepages; moving: see H1 */
    size_t first SA_LOCKED, end SA_LOCKED;     /* hugepages ever mapped lie in [first, end) */
    size_t large_pages SA_LOCKED; /* of large spans, without their tails in the filler */
    size_t in_use_pages SA_LOCKED;
    size_t empty_pages SA_LOCKED; /* of spans in use: unbacked */

    /* The request that is being placed: backed pages when it began, or SIZE_MAX where there is no
     * limit; the bytes by which it exceeds the hard limit; whether it prefers zero pages. */
    size_t before SA_LOCKED, over SA_LOCKED;
    bool to_be_zero SA_LOCKED;

    /* Release. refault_credit: pages that frees released recently and that no request has needed
     * back; each tick forgets a part (1/4 in 500 ms). refaults: refaults, pages that frees released
     * and that requests then needed. That much more is kept. Ticks forget it by what lies unused,
     * at most 1/8 in 500 ms. */
    size_t refault_credit SA_LOCKED, refaults SA_LOCKED;
    size_t top[2] SA_LOCKED;   /* most pages in use before a free: since the last tick, and between
                                * it and the tick before; what is in use at a return */
    size_t returned SA_LOCKED; /* refaults since a large fall */
    /* Falls of which the program missed what it had released, all falls, and since when none was
     * forgotten by time. risen: the heap rose by SA_COUNTED_FALL since it fell; mark: the most
     * pages in use since then, or the least since the fall; missed: refaults since the fall. */
    unsigned falls SA_LOCKED, all_falls SA_LOCKED;
    bool risen SA_LOCKED;
    size_t mark SA_LOCKED, missed SA_LOCKED;
    uint64_t falls_ns SA_LOCKED;
    size_t told SA_LOCKED; /* pages in use when sa_page_heap_fall was last set */
    /* While memory is wasted: refaults since the last tick; and how often what is kept is doubled
     * because of them. */
    size_t lean_missed SA_LOCKED;
    unsigned lean_more SA_LOCKED;
    size_t region_low_water SA_LOCKED; /* least free backed pages of regions since the last tick */
    size_t due[SA_IDLE_KINDS] SA_LOCKED; /* idle pages that ticks and steps have yet to release */
    bool refused SA_LOCKED; /* the kernel refused to release memory: only ticks try again */
    uint64_t now_ns SA_LOCKED, started_ns SA_LOCKED;

    /* Transparent hugepages. large_failed: hugepages of large_cursor not collapsed in this pass. */
    enum sa_thp_mode thp SA_LOCKED;
    struct sa_huge_advisor advisor SA_LOCKED;
    struct sa_huge_touches touches SA_LOCKED;
    struct sa_huge_collapse_stats collapse SA_LOCKED;
    struct sa_collapse_round collapse_round SA_LOCKED;
    uint64_t collapse_pause_ns SA_LOCKED; /* no collapse before this time */
    size_t region_cursor SA_LOCKED;       /* hugepage: the next of a region to be collapsed */
    struct sa_span *large_cursor SA_LOCKED;
    size_t cursor_hugepage SA_LOCKED; /* the next of large_cursor to be collapsed */
    unsigned large_failed SA_LOCKED;

    struct sa_page_heap_stats stats SA_LOCKED;
    struct sa_size_info sizes SA_LOCKED;
    /* Last, because they are large. Every program uses the beginning of the filler; few use much of
     * the hugepage map. */
    struct sa_huge_filler filler SA_LOCKED;
    struct sa_hugepage_map owners SA_LOCKED;
};

/* Notes how much is in use, before a free. */
SA_INLINE void sa_huge_heap_note_height(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    h->top[0] = sa_max(h->top[0], h->in_use_pages);
    if (h->in_use_pages >= h->mark + (h->risen ? 0 : SA_COUNTED_FALL)) {
        h->risen = true;
        h->mark = h->in_use_pages;
    }
}

/* Gives the span that was freed last back to its component. May drop the lock meanwhile. */
void sa_huge_heap_flush(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Free backed pages. */
SA_INLINE size_t sa_huge_heap_backed(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return sa_huge_filler_backed(&h->filler) + h->cache.map.hugepages * SA_HUGE_PAGES +
           (SA_UNLIKELY(h->regions != NULL) ? sa_huge_regions_backed(h->regions) : 0);
}

/* Free unbacked pages. */
SA_INLINE size_t sa_huge_heap_released(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t pages = h->released.hugepages * SA_HUGE_PAGES + h->filler.unbacked_pages[0] +
                   h->filler.unbacked_pages[1];

    for (const struct sa_huge_region *r = h->regions; SA_UNLIKELY(r != NULL); r = r->next)
        pages += r->unbacked_pages;
    return pages;
}

/* Backed pages, free or not. */
SA_INLINE size_t sa_huge_heap_used(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return h->mapped * SA_HUGE_PAGES - sa_huge_heap_released(h) - h->empty_pages;
}

/* Notes these pages in the footprint after a change; see footprint.h. */
void sa_huge_heap_note(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The free pages behind a span that is rounded up to hugepages. */
SA_INLINE size_t sa_huge_slack(size_t pages)
{
    return pages <= SA_HUGE_SMALL_PAGES ? 0
                                        : (SA_HUGE_PAGES - pages % SA_HUGE_PAGES) % SA_HUGE_PAGES;
}

/* The page's place in its hugepage. */
SA_INLINE uint32_t sa_huge_page_in(uintptr_t address)
{
    return (uint32_t)(address >> SA_PAGE_SHIFT) % SA_HUGE_PAGES;
}

#endif
