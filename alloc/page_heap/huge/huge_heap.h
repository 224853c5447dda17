/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hugepage-aware page heap: which component serves a request, and the spans. The interface is
 * page_heap.h's; a span lies in the filler, in a region, or on hugepages of its own (large spans,
 * whose tail the filler may share).
 *
 * Invariants, under the lock (PAGE_HEAP):
 *   H1  A hugepage mapped by the heap is in exactly one place: `released` (no memory), the cache
 *       (memory), the filler, a region, a large span's own part, or moving (being released by a
 *       thread).
 *   H2  The owner of a hugepage is its tracker, its region, or nobody; nobody's are large spans',
 *       cached, released and moving ones.
 *   H3  The radix map's entries for the first and last page of every span in use point to it. Free
 *       memory has no spans; entries there are stale.
 *   H4  Unused nodes of the trees are at least as many as `items`: each large span, tracker, region
 *       and moving range may become one free range without asking for memory.
 *   H5  The span freed last may wait to be given back to its component until something else
 *       happens: what is freed is often asked for again at once. Its state is MOVING, and for the
 *       components it is in use.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_HEAP_H
#define SA_PAGE_HEAP_HUGE_HUGE_HEAP_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/heap_space.h"
#include "alloc/page_heap/huge/huge_cache.h"
#include "alloc/page_heap/huge/huge_filler.h"
#include "alloc/page_heap/huge/huge_region.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/hugepage_map.h"

/* More free memory than the first, or than half of what is in use, goes back at once, but for what
 * is known to be needed again. More than the second, or than a quarter of what is in use, in any
 * case; but see sa_huge_heap_excess. */
#define SA_HUGE_SPARE_PAGES  (8ul << 20 >> SA_PAGE_SHIFT)
#define SA_HUGE_EXCESS_PAGES (48ul << 20 >> SA_PAGE_SHIFT)

/* A hugepage that has fewer free pages than this is not broken but by request. */
#define SA_HUGE_BREAK_MIN 32

/* Spans of up to so many pages always lie in the filler. */
#define SA_HUGE_SMALL_PAGES (SA_HUGE_PAGES / 2)

/* In use, in a heap for which hugepages matter most. */
#define SA_HUGE_LARGE_HEAP (512ul << 20 >> SA_PAGE_SHIFT)

enum sa_thp_mode { SA_THP_UNKNOWN, SA_THP_NEVER, SA_THP_MADVISE, SA_THP_ALWAYS };

/* What hugepages are taken for: spans of many objects, of few, of hugepages of their own; or not
 * known yet. */
enum sa_huge_use { SA_USE_DENSE, SA_USE_SPARSE, SA_USE_LARGE, SA_USE_REGION };

#define SA_PROBES       16 /* hugepages that wait to be looked at */
#define SA_PROBES_SEEN  8
#define SA_LARGE_PROBES 4 /* the same of large spans, waiting and seen */

/* A hugepage of spans below its size of which so much is in memory may get the rest of it. */
#define SA_HUGE_DENSE_PERCENT 80

/* The hugepages of a large span, without its tail. */
struct sa_huge_extent {
    size_t first, n; /* n = 0: none */
};

/* thp_policy.c */
struct sa_huge_advisor {
    size_t edges;                 /* places where the advice changes: each may cost a mapping */
    size_t probes[SA_PROBES];     /* hugepages, the latest first; 0: none */
    uint8_t seen[SA_PROBES_SEEN]; /* percent of the last ones that had memory */
    unsigned looks;
    unsigned since_probe; /* hugepages advised since the last one */
    /* The same of large spans. */
    struct sa_huge_extent large[SA_LARGE_PROBES];
    uint8_t large_seen[SA_LARGE_PROBES];
    unsigned large_looks, since_large;
};

/* first_touch.c */
struct sa_huge_touches {
    /* A hugepage whose first touch is to be timed, 0: none. Atomic, relaxed: also read without the
     * lock. */
    size_t untouched;
    bool small;                   /* that one is left to small pages */
    unsigned try_small;           /* on so many more such hugepages small pages are timed */
    unsigned left_out, leave_out; /* hugepages that are not advised: yet to come, of how many */
    unsigned not_timed;           /* yet to come, that are advised */
    size_t to_make_up;            /* that were not advised, and none has been made whole instead */
};

/* What of the candidates for a collapse has been gone through; how many of the filler's queue have
 * not. */
struct sa_collapse_round {
    size_t queued;
    bool begun, regions, large;
};

struct sa_huge_heap {
    struct sa_lock lock; /* PAGE_HEAP; guards everything below */
    uint8_t number;
    struct sa_heap_space space;
    struct sa_huge_nodes nodes;
    struct sa_huge_map released;
    struct sa_huge_cache cache;
    struct sa_huge_region *regions, *unused_regions;
    struct sa_huge_tracker *unused_trackers, *fresh_trackers; /* the latter side by side */
    unsigned fresh_count;
    struct sa_huge_tracker *spare; /* last seen empty, kept in the filler */
    struct sa_span *recent;        /* H5 */
    struct sa_span *unused_spans, *large_spans,
        *large_cursor;      /* the last two: of hugepages of their own */
    size_t cursor_hugepage; /* next of large_cursor to be collapsed */
    size_t items;           /* H4 */
    size_t mapped, moving;  /* hugepages; moving: neither cached nor released */
    size_t first,
        end; /* hugepages: all that were ever mapped are from the first to before the end */
    size_t large_pages; /* of large spans, tails in the filler not counted */
    size_t in_use_pages;
    size_t empty_pages; /* of spans in use that hold no memory */
    /* Of the request that is being placed: pages that held memory when it began, or SIZE_MAX where
     * there is no limit; the bytes by which it would pass the hard one; and whether it had better
     * be zero. */
    size_t before, over;
    bool to_be_zero;
    /* Pages that frees have released of late and that have not been missing, which are forgotten by
     * a quarter each half second; and those that have: so much more is kept, and forgotten by what
     * lies unused, an eighth at most. */
    size_t owed, regretted;
    size_t region_low_water;
    bool refused; /* the kernel would not take memory back: only ticks try again */
    uint64_t now_ns, started_ns;
    uint64_t freed_bytes; /* atomic, relaxed for readers */
    enum sa_thp_mode thp;
    enum sa_hugepages choice; /* the user's; const after init */
    struct sa_huge_advisor advisor;
    struct sa_huge_touches touches;
    struct sa_huge_collapse_stats collapse;
    uint64_t collapse_pause_ns; /* no collapse is tried before */
    struct sa_collapse_round collapse_round;
    size_t region_cursor;  /* hugepage: the next of a region to be collapsed */
    unsigned large_missed; /* hugepages of large_cursor that were not made whole in this pass */
    struct sa_page_heap_stats stats;
    struct sa_size_info sizes;
    /* Large: of the first the beginning is used by every program, of the other little at all. */
    struct sa_huge_filler filler;
    struct sa_huge_owners owners;
};

void sa_huge_heap_init(struct sa_huge_heap *h, uint8_t number, const char *name, uintptr_t hint);

/* The functions of page_heap.h. */
struct sa_span *sa_huge_heap_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                                   enum sa_pages_use use);
void sa_huge_heap_free(struct sa_huge_heap *h, struct sa_span *span, bool zero);
void sa_huge_heap_span_emptied(struct sa_huge_heap *h, struct sa_span *span);
bool sa_huge_heap_extend(struct sa_huge_heap *h, struct sa_span *span, size_t pages);
void sa_huge_heap_shrink(struct sa_huge_heap *h, struct sa_span *span, size_t pages);
size_t sa_huge_heap_release(struct sa_huge_heap *h, size_t bytes);

/* Gives back the hugepages that nobody uses, so that they are one with those that hold no memory:
 * one call for each range. Free pages of others hold no address space of their own, and stay. */
size_t sa_huge_heap_gather(struct sa_huge_heap *h);
void sa_huge_heap_unmap(struct sa_huge_heap *h, size_t bytes);

/* Unmaps as much as a span of so many pages needs, if that much is released. */
bool sa_huge_heap_make_room(struct sa_huge_heap *h, size_t pages);
bool sa_huge_heap_tick(struct sa_huge_heap *h, uint64_t now_ns);
uint64_t sa_huge_heap_collapse(struct sa_huge_heap *h, uint64_t most_ns); /* thp_collapse.c */
bool sa_huge_heap_is_free(struct sa_huge_heap *h, uintptr_t address);
void sa_huge_heap_stats(struct sa_huge_heap *h, struct sa_page_heap_stats *ret);
void sa_huge_heap_report(struct sa_huge_heap *h, struct sa_huge_stats *ret);
void sa_huge_heap_set_skip(struct sa_huge_heap *h, enum sa_skip which, uint64_t seconds);

/* Between the files of this module; lock held unless said otherwise. The supply of hugepages:
 * huge_supply.c. */

/* A range on its way to the system: taken out under the lock, released without it. */
struct sa_huge_moving {
    size_t hugepage, n; /* n = 0: none */
};

/* Which hugepages that were taken have no memory: all, the last. */
struct sa_huge_fresh {
    bool all, last;
};

/* Hugepages for so many pages from the cache, the released ones or the system; counts as usage.
 * SA_HUGE_NONE: there are none, or a limit is in the way. */
size_t sa_huge_heap_take(struct sa_huge_heap *h, size_t pages, size_t align, enum sa_huge_use use,
                         struct sa_huge_fresh *ret_fresh);

/* From the released ones or the system only, and neither counted nor advised. */
size_t sa_huge_heap_take_released(struct sa_huge_heap *h, size_t n, size_t align);

/* coalesce.c: n hugepages of which some are in the cache and others have no memory, neither counted
 * as usage; SA_HUGE_NONE: there are none of which more than half are cached. And exactly these, if
 * all are free and any is cached. */
size_t sa_huge_heap_join(struct sa_huge_heap *h, size_t n, bool *ret_last_fresh);
bool sa_huge_heap_join_at(struct sa_huge_heap *h, size_t start, size_t n, bool *ret_last_fresh);

/* Maps at least n more, which are among the released ones then: the first, or SA_HUGE_NONE. */
size_t sa_huge_heap_grow(struct sa_huge_heap *h, size_t n, size_t align);

/* Puts hugepages that nobody uses back; zero: they hold no memory. */
void sa_huge_heap_put(struct sa_huge_heap *h, size_t hugepage, size_t n, bool zero);

/* Makes sure that `more` items can be added (H4). */
bool sa_huge_heap_ready(struct sa_huge_heap *h, size_t more);

struct sa_huge_tracker *sa_huge_heap_new_tracker(struct sa_huge_heap *h);
void sa_huge_heap_drop_tracker(struct sa_huge_heap *h, struct sa_huge_tracker *t);

/* The tracker gets the hugepage, to be added to the filler; an item more. */
void sa_huge_heap_track(struct sa_huge_heap *h, struct sa_huge_tracker *t, size_t hugepage,
                        uint32_t clear_from);

/* Takes an empty hugepage out of the filler. What is left to do without the lock is added to
 * *moving. */
void sa_huge_heap_evict(struct sa_huge_heap *h, struct sa_huge_tracker *t,
                        struct sa_huge_moving *moving);

/* A tracker that is empty: kept as the spare one, or evicted. */
void sa_huge_heap_emptied(struct sa_huge_heap *h, struct sa_huge_tracker *t,
                          struct sa_huge_moving *moving);

/* Releases a moving range; the lock is dropped meanwhile. False if the kernel refused. */
bool sa_huge_heap_move(struct sa_huge_heap *h, const struct sa_huge_moving *moving)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Gives the span that was freed last back to its component, now; may drop the lock meanwhile. */
void sa_huge_heap_flush(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* After memory was given back: what is too much goes on to the system. Lets go of the lock. */
void sa_huge_heap_settle(struct sa_huge_heap *h, const struct sa_huge_moving moving[2])
    SA_RELEASE(SA_RANK_PAGE_HEAP);

/* Releases the pages of one hugepage that are marked, run by run; those that went are in done. No
 * lock held. */
bool sa_huge_heap_release_runs(size_t hugepage, const uint64_t *mask, uint64_t *done);

/* Regions: huge_regions.c. */

/* Pages of a region, of a new one where that is due: the first, or -1. */
long sa_huge_heap_region_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                               struct sa_huge_region **ret, bool *ret_zero);

/* Releases up to so many pages, of hugepages with at least `least` free ones, and gives up regions
 * that hold nothing any more. */
size_t sa_huge_heap_release_regions(struct sa_huge_heap *h, size_t pages, uint32_t least)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* What is to go back at once. */
size_t sa_huge_heap_excess(struct sa_huge_heap *h);

/* Releases up to so many pages, of hugepages with at least `least` free ones; the lock is dropped
 * meanwhile. */
size_t sa_huge_heap_release_pages(struct sa_huge_heap *h, size_t pages, uint32_t least,
                                  bool periodic) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Limits: huge_limits.c. */

/* A request begins. False: a span of a hugepage or more that is beyond the hard limit, as far as
 * that can be told before it is placed: not so much as address space is mapped for it. */
bool sa_huge_heap_begin(struct sa_huge_heap *h, size_t pages);

/* Whether the request may have so many pages more that hold no memory so far, which is to be asked
 * before anything of the heap is changed. If so, others see them as used from now on; if not,
 * `over` says why. */
bool sa_huge_heap_admits(struct sa_huge_heap *h, size_t pages);

/* A request has been served, before which so many pages held memory. What got some has been missing
 * if frees had released it. */
void sa_huge_heap_missed(struct sa_huge_heap *h, size_t before);

/* A span has grown in place, while `before` pages held memory before. */
void sa_huge_heap_grew(struct sa_huge_heap *h, size_t before);

/* Whether a span may take up to so many pages more that hold no memory, as far as that can be told
 * before. */
bool sa_huge_heap_may_grow(const struct sa_huge_heap *h, size_t pages);

/* Free pages that are to go back at once because there is more than a limit allows. */
size_t sa_huge_heap_limit_excess(const struct sa_huge_heap *h);

/* Large spans: huge_large_spans.c. */
struct sa_span *sa_huge_large_alloc(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                    size_t align);
void sa_huge_large_free(struct sa_huge_heap *h, struct sa_span *s, bool zero,
                        struct sa_huge_moving *moving);
bool sa_huge_large_extend(struct sa_huge_heap *h, struct sa_span *s, size_t pages);
bool sa_huge_large_shrink(struct sa_huge_heap *h, struct sa_span *s, size_t pages, bool zero,
                          struct sa_huge_moving *moving);

/* Advice to the kernel: thp_policy.c. */

/* The system's mode, found out when the heap is large enough for it to matter. */
enum sa_thp_mode sa_huge_heap_thp(struct sa_huge_heap *h);

/* Whether hugepages are to be made whole, as far as the system, the user, the past and the size of
 * the heap say. Lock held. */
bool sa_huge_heap_collapses(struct sa_huge_heap *h);

/* Hugepages without memory are about to be used for so many pages. */
void sa_huge_heap_advise_for(struct sa_huge_heap *h, size_t hugepage, size_t pages,
                             enum sa_huge_use use);

/* A large span has got hugepages without memory: it may serve to find out how much of such spans is
 * used. Or it does no more, as it has become shorter. */
void sa_huge_heap_probe_large(struct sa_huge_heap *h, size_t hugepage, size_t n);
void sa_huge_heap_forget_large(struct sa_huge_heap *h, size_t hugepage);

/* A tracker is about to get sparse spans: it may serve to find out how much of such hugepages is
 * used. */
void sa_huge_heap_probe(struct sa_huge_heap *h, struct sa_huge_tracker *t);

/* Some of its pages are about to go back while others stay: what is left must not be made a
 * hugepage again by the kernel, free pages and all. Whether that advice stands now. */
bool sa_huge_heap_keep_out(struct sa_huge_heap *h, size_t hugepage);

/* Takes back what keep_out said, so that the hugepage can be made whole. */
void sa_huge_heap_let_in(struct sa_huge_heap *h, size_t hugepage);

/* Pages that came from elsewhere were mapped afresh; or were not, and what stands is not known. */
void sa_huge_heap_renewed(struct sa_huge_heap *h, uintptr_t start, size_t pages, bool afresh);

/* Notes what stands; no system call. */
void sa_huge_heap_set_advice(struct sa_huge_heap *h, size_t hugepage, size_t n,
                             enum sa_thp_policy advice);

/* Whether the first touch of a hugepage without memory brings all of it, or may. */
bool sa_huge_heap_comes_whole(const struct sa_huge_heap *h, size_t hugepage);

/* First touches: first_touch.c. */

/* Whether n hugepages that might be advised are left to small pages. One of the filler's may be
 * timed in either case. */
bool sa_huge_heap_leaves_out(struct sa_huge_heap *h, size_t hugepage, size_t n,
                             enum sa_huge_use use);

/* The kernel did not take what was to be said of a hugepage: its first touch tells nothing. */
void sa_huge_heap_not_advised(struct sa_huge_heap *h, size_t hugepage);

/* Makes the first touch of touches.untouched, on which a span lies that the caller has just taken.
 * Without the lock. */
void sa_huge_heap_touch(struct sa_huge_heap *h, const struct sa_span *s);

/* One has been made whole: whether it stands, in a large heap, for one that was not advised because
 * that would have taken long. Lock held. */
bool sa_huge_heap_makes_up(struct sa_huge_heap *h);

/* Pages that are free and hold memory. */
SA_INLINE size_t sa_huge_heap_backed(const struct sa_huge_heap *h)
{
    return sa_huge_filler_backed(&h->filler) + h->cache.map.hugepages * SA_HUGE_PAGES +
           (SA_UNLIKELY(h->regions != NULL) ? sa_huge_regions_backed(h->regions) : 0);
}

/* Pages that are free and hold none. */
SA_INLINE size_t sa_huge_heap_released(const struct sa_huge_heap *h)
{
    size_t pages =
        h->released.hugepages * SA_HUGE_PAGES + h->filler.clear_pages[0] + h->filler.clear_pages[1];

    for (const struct sa_huge_region *r = h->regions; SA_UNLIKELY(r != NULL); r = r->next)
        pages += r->clear_pages;
    return pages;
}

/* Pages that hold memory, free or not. */
SA_INLINE size_t sa_huge_heap_used(const struct sa_huge_heap *h)
{
    return h->mapped * SA_HUGE_PAGES - sa_huge_heap_released(h) - h->empty_pages;
}

/* Says how much that is, after it has changed; see footprint.h. */
SA_INLINE void sa_huge_heap_note(const struct sa_huge_heap *h)
{
    sa_footprint_note(h->number, sa_huge_heap_used(h) << SA_PAGE_SHIFT);
}

/* What a span leaves free behind it when it is rounded up to hugepages. */
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
