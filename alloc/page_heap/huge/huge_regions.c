/* SPDX-License-Identifier: Apache-2.0 */
/* The regions of a heap: see huge_regions.h, and huge_region.h for a single one. */
#include "alloc/page_heap/huge/huge_regions.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "alloc/page_heap/huge/huge_supply.h"
#include "pagemap/arena.h"

#include <string.h>

/* The slack from which a region is made: 64 MiB. */
#define REGION_SLACK (64ul << 20 >> SA_PAGE_SHIFT)

/* Takes pages of the region with the shortest longest run that holds them. */
SA_RARE static long region_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                                 struct sa_huge_region **ret, bool *ret_zero)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_region *best = NULL;
    struct sa_region_place place;

    for (struct sa_huge_region *r = h->regions; r; r = r->next)
        if (r->range.longest >= pages && (!best || r->range.longest < best->range.longest))
            best = r;
    if (!best)
        return -1;
    place = sa_huge_region_find(best, (uint32_t)pages, (uint32_t)align, best->eager);
    if (place.at < 0)
        return -1;
    if (!sa_huge_heap_admits(h, place.grows)) {
        sa_huge_region_cancel(best, &place);
        return -1;
    }
    sa_huge_region_commit(best, &place, best->eager);
    h->region_low_water = sa_min(h->region_low_water, sa_huge_regions_backed(h->regions));
    *ret = best;
    *ret_zero = place.zero;
    return place.at;
}

/* True if rounding up to hugepages wastes more than small spans use. */
static bool region_is_due(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t slack = h->sizes.slack_pages + h->filler.abandoned_pages;

    return slack >= REGION_SLACK && slack >= h->sizes.small_live_pages;
}

static bool region_grow(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_region *r = h->unused_regions;
    size_t hugepage;

    if (!sa_huge_heap_ready(h, 2))
        return false;
    if (r)
        h->unused_regions = r->next;
    else
        r = sa_arena_alloc(sizeof(*r), 8);
    if (!r)
        return false;
    /* Not from the cache: backed hugepages are better used whole. */
    hugepage = sa_huge_heap_take_released(h, SA_REGION_HUGEPAGES, 1);
    if (hugepage == SA_HUGE_NONE) {
        r->next = h->unused_regions;
        h->unused_regions = r;
        return false;
    }
    sa_huge_heap_advise_for(h, hugepage, SA_REGION_PAGES, SA_USE_REGION);
    memset(r, 0, sizeof(*r));
    sa_huge_region_init(r, hugepage, h->now_ns);
    r->eager = sa_huge_heap_is_eager(h, hugepage); /* the advice is the same for all */
    sa_huge_cache_use(&h->cache, SA_REGION_HUGEPAGES);
    for (size_t i = 0; i < SA_REGION_HUGEPAGES; i++)
        sa_hugepage_map_set(&h->owners, hugepage + i, (uintptr_t)r | SA_HUGE_OWNER_REGION);
    r->next = h->regions;
    h->regions = r;
    h->items++;
    SA_DCHECK(h->nodes.unused_count >= h->items); /* H4 */
    return true;
}

SA_RARE long sa_huge_heap_region_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                                       struct sa_huge_region **ret, bool *ret_zero)
{
    long at = region_alloc(h, pages, align, ret, ret_zero);

    if (at < 0 && !h->over && region_is_due(h) && region_grow(h))
        at = region_alloc(h, pages, align, ret, ret_zero);
    return at;
}

/* Turns a region that is empty and unbacked into free hugepages. */
static void region_drop(struct sa_huge_heap *h, struct sa_huge_region *r)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t hugepage = r->hugepage;

    SA_DCHECK(h->items > 0 && r->moving_pages == 0);
    for (size_t i = 0; i < SA_REGION_HUGEPAGES; i++)
        sa_hugepage_map_set(&h->owners, hugepage + i, 0);
    r->next = h->unused_regions;
    h->unused_regions = r;
    h->items--;
    sa_huge_heap_put(h, hugepage, SA_REGION_HUGEPAGES, true);
}

static void drop_empty_regions(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_region **link = &h->regions, *r;

    while ((r = *link)) {
        if (r->range.taken || r->unbacked_pages < SA_REGION_PAGES) {
            link = &r->next;
        } else {
            *link = r->next;
            region_drop(h, r);
        }
    }
}

/* Pages that are moving count as taken, so their region is not dropped. */
SA_RARE size_t sa_huge_heap_release_regions(struct sa_huge_heap *h, size_t pages, uint32_t min)
{
    struct sa_huge_region *r = h->regions;
    size_t done = 0;
    bool ok = true;

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    while (r && ok && done < pages) {
        uint64_t released[SA_HUGE_WORDS] = {0};
        struct sa_region_release release;
        size_t hugepage;
        uint32_t count;

        if (!sa_huge_region_begin(r, min, &release)) {
            r = r->next;
            continue;
        }
        hugepage = r->hugepage + release.index;
        if (!release.empty)
            sa_huge_heap_thp_disable(h, hugepage);
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        ok = sa_huge_heap_release_runs(hugepage, release.mask, released);
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->refused = !ok;
        sa_huge_region_end(r, &release, released, h->now_ns);
        count = sa_bits_count(released, 0, SA_HUGE_PAGES);
        h->region_low_water = sa_min(h->region_low_water, sa_huge_regions_backed(h->regions));
        h->stats.released_ever_bytes += (uint64_t)count << SA_PAGE_SHIFT;
        done += count;
    }
    drop_empty_regions(h);
    return done;
}
