/* SPDX-License-Identifier: Apache-2.0 */
/* The limits as they apply to the hugepage-aware heap; see huge_limits.h. */
#include "alloc/page_heap/huge/huge_limits.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

/* Over the soft limit, frees collect 1/64 of it before it is released, so that a system call
 * releases more than a page. */
#define SOFT_SURPLUS_FRACTION 64

SA_RARE void sa_huge_heap_grew(struct sa_huge_heap *h, size_t before)
{
    size_t used = sa_huge_heap_used(h);

    sa_limits_over(h->number, used << SA_PAGE_SHIFT,
                   used > before ? (used - before) << SA_PAGE_SHIFT : 0);
}

/* The bytes by which a long span exceeds the hard limit wherever it is placed, as far as that can
 * be told; 0: none. */
static size_t too_long(const struct sa_huge_heap *h, size_t pages) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_huge_node *longest = sa_huge_map_longest(&h->cache.map);
    size_t over;

    /* A region's free pages may be backed or not. The request does not count on them: they are
     * released first, unless the kernel refuses that. */
    if (pages < SA_HUGE_PAGES ||
        (longest && longest->length * SA_HUGE_PAGES >= pages && (!h->regions || h->refused)))
        return 0;
    if (h->refused)
        pages -= sa_min(pages, sa_huge_regions_backed(h->regions));
    over = sa_limits_lacking(pages << SA_PAGE_SHIFT);
    if (over)
        sa_add_relaxed(&sa_limits.refused, 1);
    return over;
}

bool sa_huge_heap_begin(struct sa_huge_heap *h, size_t pages)
{
    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    h->over = 0;
    h->before = SIZE_MAX;
    if (sa_limits_active()) {
        h->before = sa_huge_heap_used(h);
        sa_huge_heap_note(h); /* the flush before may have changed it */
        h->over = too_long(h, pages);
    }
    return h->over == 0;
}

void sa_huge_heap_note(const struct sa_huge_heap *h)
{
    sa_footprint_note(h->number, sa_huge_heap_used(h) << SA_PAGE_SHIFT);
    sa_store_relaxed(&sa_footprint.idle, sa_huge_heap_backed(h) << SA_PAGE_SHIFT);
    sa_store_relaxed(&sa_footprint.between, sa_huge_filler_backed(&h->filler) << SA_PAGE_SHIFT);
}

bool sa_huge_heap_admits(struct sa_huge_heap *h, size_t pages)
{
    SA_DCHECK(h->before == SIZE_MAX || h->before <= h->mapped * SA_HUGE_PAGES);
    if (SA_LIKELY(h->before == SIZE_MAX))
        return true;
    h->over =
        sa_limits_over(h->number, (h->before + pages) << SA_PAGE_SHIFT, pages << SA_PAGE_SHIFT);
    if (h->over)
        sa_footprint_note(h->number, h->before << SA_PAGE_SHIFT);
    return h->over == 0;
}

SA_RARE bool sa_huge_heap_may_grow(const struct sa_huge_heap *h, size_t pages)
{
    /* Where the kernel makes hugepages by itself, the first page of one backs all of it. */
    return sa_limits_have_room(
        (pages + (h->thp == SA_THP_ALWAYS || h->choice == SA_HUGEPAGES_ALWAYS ? SA_HUGE_PAGES : 0))
        << SA_PAGE_SHIFT);
}

SA_RARE size_t sa_huge_heap_limit_surplus(const struct sa_huge_heap *h)
{
    size_t over = sa_limits_surplus(SA_LIMIT_SOFT) >> SA_PAGE_SHIFT, used = sa_footprint_bytes();
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0);
    size_t min = sa_limits_get(SA_LIMIT_SOFT) / SOFT_SURPLUS_FRACTION >> SA_PAGE_SHIFT;
    /* A hugepage that becomes free counts as backed as a whole, so even frees can exceed the
     * limit. */
    size_t hard = sa_limits_surplus(SA_LIMIT_HARD) >> SA_PAGE_SHIFT;

    if (!h->refused)
        sa_limits_rearm(used - sa_min(used, backed << SA_PAGE_SHIFT));
    return sa_min(backed > min ? sa_max(over, hard) : hard, backed);
}
