/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hugepage-aware heap may keep; see huge_heap_surplus.h. Memory that comes back soon is
 * worth keeping. Memory that nobody will want stays for ever in a process that then does nothing:
 * no call comes that could release it. So each rule keeps less of a fall the larger it is, measured
 * by what is still in use, unless the same demand has come back again and again.
 *
 * What falls without refaults (doc/perf.md, "Findings behind the design"): a compiler that frees
 * most of 62 MiB and goes on has a peak of 177 MiB instead of 157, if 48 MiB are always kept.
 */
#include "alloc/page_heap/huge/huge_heap_surplus.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "alloc/page_heap/huge/huge_regions.h"

/* More free pages than SPARE_PAGES, and than half of those in use, are released at once, except for
 * those that refaults keep. More than heap_excess, and than a quarter of those in use, are released
 * in any case; see sa_huge_heap_surplus. */
#define SPARE_PAGES  (8ul << 20 >> SA_PAGE_SHIFT)
#define EXCESS_PAGES (48ul << 20 >> SA_PAGE_SHIFT)

/* While memory is wasted (sa_huge_heap_is_lean), no more than this is kept, or this part of what is
 * in use. */
#define LEAN_PAGES    (1ul << 20 >> SA_PAGE_SHIFT)
#define LEAN_FRACTION 32

/* Refaults from which on the heap may keep so much that a thread should release it. */
#define SWING_PAGES (16ul << 20 >> SA_PAGE_SHIFT)

/* Hugepages that are kept for a program that uses nothing else. */
#define KEPT_MAX 128

SA_START_DATA unsigned char sa_page_heap_swings;
uint64_t sa_page_heap_lean_ns;

/* Free pages of the filler that are held back for demand that is likely to return, and the span
 * that was freed last, if the filler has it: for the filler, it is in use. */
static size_t heap_held_back(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t held = sa_huge_filler_held_back(&h->filler);

    if (held && h->recent && sa_hugepage_map_tracker(&h->owners, h->recent->start >> SA_HUGE_SHIFT))
        held += h->recent->pages;
    return held;
}

/*
 * They are at most as many as the memory in use, and fewer as far as the last second's fall exceeds
 * it, so that few stay when most is freed. The exception is demand that was reached again and
 * again: it keeps up to KEPT_MAX hugepages.
 */
SA_RARE size_t sa_huge_heap_needed(const struct sa_huge_heap *h)
{
    size_t needed = sa_huge_cache_needed(&h->cache), used = h->in_use_pages / SA_HUGE_PAGES;
    size_t fell = h->cache.peak - h->cache.usage, keep = 2 * used - sa_min(fell, 2 * used);

    if (sa_limits_active())
        return 0;
    keep = sa_min(keep, used);
    if (needed > keep && sa_huge_cache_comes_again(&h->cache))
        keep = sa_max(used, KEPT_MAX);
    return sa_min(needed, keep);
}

bool sa_huge_heap_is_lean(const struct sa_huge_heap *h)
{
    return h->now_ns < sa_load_relaxed(&sa_page_heap_lean_ns);
}

/* Free backed pages between spans, in hugepages and regions that are partly used. They are no
 * surplus, but time releases them if they stay unused. At most as many as are in use; none if
 * memory is short, or wasted. */
static size_t heap_between(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return sa_limits_active() || sa_huge_heap_is_lean(h)
               ? 0
               : sa_min(sa_huge_filler_backed(&h->filler) + sa_huge_regions_backed(h->regions),
                        h->in_use_pages);
}

/* What refaults keep at most: as much less as a fall in the last second exceeds EXCESS_PAGES. Of so
 * large a rise it would save a part only, and it stays if the process does nothing more. */
static size_t heap_excess(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t top = sa_max(h->top[0], h->top[1]), fell = top - sa_min(top, h->in_use_pages);
    size_t less = fell > EXCESS_PAGES ? sa_min(fell, 2 * EXCESS_PAGES) - EXCESS_PAGES : 0;

    return sa_max(EXCESS_PAGES - less, SPARE_PAGES);
}

SA_RARE size_t sa_huge_heap_surplus(struct sa_huge_heap *h)
{
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0), cached, surplus;
    size_t needed = sa_huge_heap_needed(h), excess = heap_excess(h), keep;

    keep = sa_max(excess, h->in_use_pages / 4) + needed * SA_HUGE_PAGES + heap_between(h);
    /* At most twice the peak of the last second: no more can have been in use and missing. */
    h->refaults = sa_min(h->refaults, sa_max(EXCESS_PAGES, 2 * h->cache.peak * SA_HUGE_PAGES));
    /* After a fall that leaves no excess, refaults keep only what is needed again. */
    keep = sa_min(keep, sa_max(SPARE_PAGES, h->in_use_pages / 2) +
                            (excess > SPARE_PAGES ? h->refaults : needed * SA_HUGE_PAGES));
    if (sa_huge_heap_is_lean(h))
        keep = sa_min(keep, sa_max(LEAN_PAGES, h->in_use_pages / LEAN_FRACTION));
    keep = sa_max(keep, needed * SA_HUGE_PAGES); /* release_pages does not release these */
    h->cache.ceiling = keep / SA_HUGE_PAGES;
    if (h->refused)
        return 0;
    cached = sa_huge_cache_surplus(&h->cache) * SA_HUGE_PAGES;
    surplus = sa_max(cached, backed > keep ? backed - keep : 0);
    surplus = surplus ? sa_min(surplus, backed - heap_held_back(h)) : 0;
    return sa_limits_active() ? sa_max(surplus, sa_huge_heap_limit_surplus(h)) : surplus;
}

SA_RARE void sa_huge_heap_refaulted(struct sa_huge_heap *h, size_t before)
{
    size_t used = sa_huge_heap_used(h),
           missing = used > before ? sa_min(used - before, h->refault_credit) : 0;

    SA_DCHECK(missing <= h->refault_credit);
    h->refault_credit -= missing;
    h->refaults += missing;
    if (SA_UNLIKELY(missing && h->refaults > SWING_PAGES))
        sa_store_relaxed(&sa_page_heap_swings, 1);
}

void sa_huge_heap_forget(struct sa_huge_heap *h, size_t unused, double part)
{
    size_t absent = h->refaults - sa_min(h->refaults, sa_huge_heap_backed(h));

    h->refault_credit -= (size_t)((double)h->refault_credit * part);
    h->refaults -= sa_min((size_t)((double)h->refaults * part / 2), sa_max(unused, absent));
    if (h->refaults <= SWING_PAGES)
        sa_store_relaxed(&sa_page_heap_swings, 0);
}
