/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hugepage-aware heap may keep; see huge_heap_surplus.h. Memory that comes back soon is
 * worth keeping. Memory that nobody will want stays for ever in a process that then does nothing:
 * no call comes that could release it. So each rule keeps less of a fall the larger it is, measured
 * by what is still in use, unless the program has come back from such falls again and again.
 *
 * What falls without refaults (doc/perf_findings.md): a compiler that frees
 * most of 62 MiB and goes on has a peak of 177 MiB instead of 157, if 48 MiB are always kept.
 */
#include "alloc/page_heap/huge/huge_heap_surplus.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "alloc/page_heap/huge/huge_regions.h"

/* More free pages than SPARE_PAGES, and than half of those in use, are released at once, except for
 * those that refaults keep. More than heap_excess, and than a quarter of those in use, are released
 * in any case; see sa_huge_heap_surplus. */
#define SPARE_PAGES  (8ul << 20 >> SA_PAGE_SHIFT)
#define SPARE_LOCKED (1ul << 20 >> SA_PAGE_SHIFT) /* instead, where memory is locked */
#define EXCESS_PAGES SA_COUNTED_FALL              /* a fall as large leaves less to keep */

/* From here on a fall is large: nothing is left of EXCESS_PAGES but SPARE_PAGES. */
#define LARGE_FALL (2 * EXCESS_PAGES - SPARE_PAGES)

/* After more falls than this of which the program missed SPARE_PAGES, falls count no more: less
 * would be kept in vain. More than FALLS_MAX are not counted. Each FALLS_NS half of them are
 * forgotten. What caches do after a fall ends likewise, but one fall later, and by the number of
 * all falls, also of those of which nothing was missed because it was kept. */
#define FALLS     4u
#define FALLS_MAX 16u
#define FALLS_NS  16000000000ull

/* While memory is wasted (sa_huge_heap_is_lean), no more than this is kept, or this part of what is
 * in use. */
#define LEAN_PAGES    (1ul << 20 >> SA_PAGE_SHIFT)
#define LEAN_FRACTION 48

/* Each time the program has missed so much more of that since the last tick, twice as much is kept,
 * up to LEAN_MORE times doubled. A tick before which it has missed less than 1/LEAN_FEW of this
 * takes a doubling back, and a fall that frees most takes all. To release 128 MiB and to touch them
 * again takes 50 ms (1.3 us for each page of the system, measured on a virtual machine). */
#define LEAN_MISSED (128ul << 20 >> SA_PAGE_SHIFT)
#define LEAN_FEW    8
#define LEAN_MORE   2

/* Refaults from which on the heap may keep so much that a thread should release it. */
#define SWING_PAGES (16ul << 20 >> SA_PAGE_SHIFT)

/* Hugepages that are kept for a program that uses nothing else. */
#define KEPT_MAX 128

SA_START_DATA unsigned char sa_page_heap_swings;
SA_START_DATA unsigned char sa_page_heap_fall;
uint64_t sa_page_heap_lean_ns;

/* How many pages fewer are in use than at the highest point of the last second; see top. */
SA_RARE static size_t heap_fell(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t top = sa_max(h->top[0], h->top[1]);

    return top - sa_min(top, h->in_use_pages);
}

/* The same, as far as less is to be kept because of it. */
SA_RARE static size_t heap_lost(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return h->falls <= FALLS ? heap_fell(h) : 0;
}

/*
 * They are at most as many as the memory in use, and fewer as far as the last second's fall exceeds
 * it, so that few stay when most is freed. The exception is demand that was reached again and
 * again: it keeps up to KEPT_MAX hugepages, unless the fall is large.
 */
SA_RARE size_t sa_huge_heap_needed(const struct sa_huge_heap *h)
{
    size_t needed = sa_huge_cache_needed(&h->cache), used = h->in_use_pages;
    size_t lost = heap_lost(h), keep;

    if (sa_limits_active())
        return 0;
    keep = sa_min(used, 2 * used - sa_min(lost, 2 * used)) / SA_HUGE_PAGES;
    if (needed > keep && lost < LARGE_FALL && sa_huge_cache_comes_again(&h->cache))
        keep = sa_max(used / SA_HUGE_PAGES, KEPT_MAX);
    return sa_min(needed, keep);
}

SA_RARE bool sa_huge_heap_is_lean(const struct sa_huge_heap *h)
{
    return h->now_ns < sa_load_relaxed(&sa_page_heap_lean_ns);
}

/* Free backed pages between spans, in hugepages and regions that are partly used. They are no
 * surplus, but time releases them if they stay unused. At most as many as are in use; none if
 * memory is short, or wasted. */
SA_RARE static size_t heap_between(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return sa_limits_active() || sa_huge_heap_is_lean(h)
               ? 0
               : sa_min(sa_huge_filler_backed(&h->filler) + sa_huge_regions_backed(h->regions),
                        h->in_use_pages);
}

/* Nothing else than the heap can use memory that is locked. Where the kernel does not release it,
 * to try more often is in vain. */
SA_RARE static size_t heap_spare(void)
{
    return sa_load_relaxed(&sa_vm.locked) && !sa_load_relaxed(&sa_vm.keeps_locked) ? SPARE_LOCKED
                                                                                   : SPARE_PAGES;
}

/* What refaults keep at most: as much less as a fall exceeds EXCESS_PAGES. Of so large a rise it
 * would save a part only, and it stays if the process does nothing more. */
SA_RARE static size_t heap_excess(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t lost = heap_lost(h);

    return lost < LARGE_FALL ? EXCESS_PAGES - (lost - sa_min(lost, EXCESS_PAGES)) : heap_spare();
}

SA_RARE bool sa_huge_heap_fell_most(const struct sa_huge_heap *h)
{
    size_t lost = heap_lost(h);

    return lost >= LARGE_FALL && lost / 4 >= h->in_use_pages;
}

/* The pages in use at which caches are emptied once more: half of what it was, or 7/8 from 32 MiB
 * down. Objects of many classes have gone to them since, each of which may keep a span of its own.
 * They are few, but at the end nothing else is left. */
SA_RARE static size_t heap_told_next(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return sa_max(h->told / 2, sa_min(h->told, 4 * SPARE_PAGES) / 8 * 7);
}

/* It ends at half of what begins it: a span that comes and goes does not begin it again. Once less
 * than SPARE_PAGES / 2 are in use, caches are not emptied any more. */
SA_RARE void sa_huge_heap_note_fall(struct sa_huge_heap *h)
{
    bool falls = sa_load_relaxed(&sa_page_heap_fall) != SA_FALL_NONE;
    size_t lost =
        h->all_falls <= FALLS + 1 && !sa_limits_keep_all() ? (falls ? 2 : 1) * heap_lost(h) : 0;
    bool fell = lost >= LARGE_FALL && lost >= h->in_use_pages;

    if (SA_LIKELY(fell ? falls && sa_max(h->in_use_pages, SPARE_PAGES / 2) > heap_told_next(h)
                       : !falls))
        return;
    sa_store_relaxed(&sa_page_heap_fall, fell ? SA_FALL_BEGUN : SA_FALL_NONE);
    h->told = h->in_use_pages;
}

/* Counts a fall if what the one before it released was missed, or would have been, and looks how
 * low it goes. */
SA_RARE static void heap_count_fall(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (h->risen && h->mark >= h->in_use_pages + SA_COUNTED_FALL) {
        h->risen = false;
        h->mark = h->in_use_pages;
        h->falls_ns = h->all_falls ? h->falls_ns : h->now_ns;
        h->all_falls = sa_min(h->all_falls + 1, FALLS_MAX);
        h->falls = sa_min(h->falls + (h->missed >= SPARE_PAGES || h->falls > FALLS), FALLS_MAX);
        h->missed = h->returned = 0;
    } else if (!h->risen) {
        h->mark = sa_min(h->mark, h->in_use_pages);
    }
}

SA_RARE size_t sa_huge_heap_surplus(struct sa_huge_heap *h)
{
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0), cached, surplus;
    size_t needed, excess, keep;

    heap_count_fall(h);
    sa_huge_heap_note_fall(h);
    needed = sa_huge_heap_needed(h);
    excess = heap_excess(h);
    keep = sa_max(excess, h->in_use_pages / 4) + needed * SA_HUGE_PAGES + heap_between(h);
    /* At most twice the peak of the last second: no more can have been in use and missing. */
    h->refaults = sa_min(h->refaults, sa_max(EXCESS_PAGES, 2 * h->cache.peak * SA_HUGE_PAGES));
    /* After a fall that leaves no excess, refaults keep only what is needed again. */
    keep = sa_min(keep, sa_max(heap_spare(), h->in_use_pages / 2) +
                            (excess > SPARE_PAGES ? h->refaults : needed * SA_HUGE_PAGES));
    if (h->lean_more && sa_huge_heap_fell_most(h))
        h->lean_more = 0;
    if (sa_huge_heap_is_lean(h))
        keep = sa_min(keep, sa_max(LEAN_PAGES, h->in_use_pages / LEAN_FRACTION) << h->lean_more);
    keep = sa_max(keep, needed * SA_HUGE_PAGES); /* release_pages does not release these */
    h->cache.ceiling = keep / SA_HUGE_PAGES;
    if (h->refused)
        return 0;
    cached = sa_huge_cache_surplus(&h->cache) * SA_HUGE_PAGES;
    surplus = sa_max(cached, backed > keep ? backed - keep : 0);
    surplus = sa_min(surplus, backed - sa_min(backed, sa_limits_keep()));
    return sa_limits_active() ? sa_max(surplus, sa_huge_heap_limit_surplus(h)) : surplus;
}

/* A fall is over once the program takes back SPARE_PAGES of what it released. */
SA_RARE static void heap_note_return(struct sa_huge_heap *h, size_t refaults)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    h->returned = heap_fell(h) < LARGE_FALL ? 0 : h->returned + refaults;
    if (h->returned < SPARE_PAGES)
        return;
    h->returned = 0;
    h->top[0] = h->top[1] = h->in_use_pages;
    sa_huge_heap_note_fall(h);
}

/* Keeps more, if the program misses much of what is released while memory is wasted. */
SA_RARE static void heap_note_lean(struct sa_huge_heap *h, size_t refaults)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t before = h->lean_missed;

    h->lean_missed += refaults;
    if (h->lean_missed / LEAN_MISSED > before / LEAN_MISSED)
        h->lean_more = sa_min(h->lean_more + 1, LEAN_MORE);
}

SA_RARE void sa_huge_heap_tick_lean(struct sa_huge_heap *h)
{
    if (h->lean_more && h->lean_missed < LEAN_MISSED / LEAN_FEW)
        h->lean_more--;
    h->lean_missed = 0;
}

SA_RARE void sa_huge_heap_refaulted(struct sa_huge_heap *h, size_t before)
{
    size_t used = sa_huge_heap_used(h),
           missing = used > before ? sa_min(used - before, h->refault_credit) : 0;

    SA_DCHECK(missing <= h->refault_credit);
    h->refault_credit -= missing;
    h->refaults += missing;
    h->missed += missing;
    if (SA_UNLIKELY(missing && h->refaults > SWING_PAGES))
        sa_store_relaxed(&sa_page_heap_swings, 1);
    if (sa_huge_heap_is_lean(h))
        heap_note_lean(h, missing);
    heap_note_return(h, missing);
}

SA_RARE void sa_huge_heap_forget(struct sa_huge_heap *h, size_t unused, double part)
{
    size_t absent = h->refaults - sa_min(h->refaults, sa_huge_heap_backed(h));

    h->refault_credit -= (size_t)((double)h->refault_credit * part);
    h->refaults -= sa_min((size_t)((double)h->refaults * part / 2), sa_max(unused, absent));
    if (h->refaults <= SWING_PAGES)
        sa_store_relaxed(&sa_page_heap_swings, 0);
}

SA_RARE void sa_huge_heap_forget_falls(struct sa_huge_heap *h)
{
    for (; h->all_falls && h->now_ns - h->falls_ns >= FALLS_NS; h->falls_ns += FALLS_NS) {
        h->all_falls /= 2;
        h->falls /= 2;
    }
}
