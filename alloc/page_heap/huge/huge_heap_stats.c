/* SPDX-License-Identifier: Apache-2.0 */
/* What reports read of the hugepage-aware heap: its metrics (huge_stats.h), its range of addresses,
 * and whether an address is free. */
#include "alloc/page_heap/account/span_records.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include <string.h>

#define FREE_TRIES 1000

static void heap_fill_stats(struct sa_huge_heap *h, struct sa_page_heap_stats *ret)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t moving = h->moving * SA_HUGE_PAGES + h->filler.moving_pages;
    /* The flush before may have dropped the lock, and another thread freed a span since. */
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0);

    for (struct sa_huge_region *r = h->regions; r; r = r->next)
        moving += r->moving_pages;
    *ret = h->stats;
    ret->mapped_bytes = h->mapped * SA_HUGE_BYTES;
    ret->in_use_bytes = h->in_use_pages << SA_PAGE_SHIFT;
    ret->empty_bytes = h->empty_pages << SA_PAGE_SHIFT;
    ret->backed_bytes = backed << SA_PAGE_SHIFT;
    ret->moving_bytes = moving << SA_PAGE_SHIFT;
    ret->released_bytes = sa_huge_heap_released(h) << SA_PAGE_SHIFT;
}

void sa_huge_heap_span_emptied(struct sa_huge_heap *h, struct sa_span *s)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_emptied(s, true, &h->empty_pages);
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

SA_RARE void sa_huge_heap_range(struct sa_huge_heap *h, uintptr_t *ret_start, uintptr_t *ret_end)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    *ret_start = h->first << SA_HUGE_SHIFT;
    *ret_end = h->end << SA_HUGE_SHIFT;
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

void sa_huge_heap_stats(struct sa_huge_heap *h, struct sa_page_heap_stats *ret)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    sa_huge_heap_note(h); /* a hugepage that has become free counts as a whole */
    heap_fill_stats(h, ret);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

/*
 * The heap walk: counts hugepages by address, a few in one hold of the lock, so that other threads
 * do not wait long. The counts are of no single moment, but each hugepage is counted at most once.
 */
#define WALK_STEP 128 /* hugepages of the filler, or ranges, in one hold; or one region */
#define WALK_LOOK 64  /* hugepages without an owner that are passed, for each of those */
#define WALK_NEAR 8   /* hugepages ahead, whose trackers are fetched meanwhile */

/* Begins to load a tracker that is likely to be counted soon. */
static void walk_fetch(const struct sa_huge_heap *h, size_t hugepage) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    uintptr_t owner = hugepage < h->end ? sa_hugepage_map_owner(&h->owners, hugepage) : 0;

    for (size_t i = SA_CACHELINE; owner && i < sizeof(struct sa_huge_tracker); i += SA_CACHELINE)
        __builtin_prefetch((const char *)owner + i);
}

/* Counts the owners of some hugepages from `at` on. Returns where to go on. */
static size_t walk_owners(const struct sa_huge_heap *h, size_t at, struct sa_huge_stats *ret)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    for (int i = 0; i < WALK_STEP; i++) {
        const struct sa_huge_region *r;
        uintptr_t owner;

        at = sa_hugepage_map_next(&h->owners, at, h->end, WALK_LOOK);
        walk_fetch(h, at + WALK_NEAR);
        owner = sa_hugepage_map_owner(&h->owners, at);
        if (!owner)
            return at;
        if (owner & SA_HUGE_OWNER_REGION) {
            r = (const struct sa_huge_region *)(owner & ~SA_HUGE_OWNER_REGION);
            if (r->hugepage ==
                at) /* otherwise it was made behind the place that has been reached */
                sa_huge_region_report(r, &ret->region, &ret->ages, h->now_ns);
            return r->hugepage + SA_REGION_HUGEPAGES;
        }
        sa_huge_filler_count(&h->filler, (const struct sa_huge_tracker *)owner, &ret->filler,
                             &ret->ages);
        at++;
    }
    return at;
}

/* The same for the ranges of a map. SA_HUGE_NONE: all have been counted. */
static size_t walk_ranges(const struct sa_huge_heap *h, const struct sa_huge_map *map, size_t at,
                          struct sa_age_row *rows) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    for (int i = 0; i < WALK_STEP; i++) {
        const struct sa_huge_node *n = sa_huge_map_from(map, at);

        if (!n)
            return SA_HUGE_NONE;
        sa_span_ages_add(rows, n->length * SA_HUGE_PAGES,
                         sa_span_ages_idle(h->now_ns - n->since_ns));
        at = n->start + n->length;
    }
    return at;
}

/* Walks the whole heap. The lock is yielded after each step. */
static void heap_walk(struct sa_huge_heap *h, struct sa_huge_stats *ret)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t at = h->first;

    while ((at = walk_owners(h, at, ret)) < h->end)
        sa_lock_yield(&h->lock, SA_RANK_PAGE_HEAP);
    at = 0;
    while ((at = walk_ranges(h, &h->cache.map, at, ret->ages.backed)) != SA_HUGE_NONE)
        sa_lock_yield(&h->lock, SA_RANK_PAGE_HEAP);
    at = 0;
    while ((at = walk_ranges(h, &h->released, at, ret->ages.released)) != SA_HUGE_NONE)
        sa_lock_yield(&h->lock, SA_RANK_PAGE_HEAP);
}

static void fill_parts(size_t large_pages, struct sa_huge_stats *ret)
{
    ret->part_filler = (struct sa_huge_part){.used_pages = ret->filler.used_pages,
                                             .free_pages = ret->filler.free_pages,
                                             .unmapped_pages = ret->filler.unmapped_pages};
    ret->part_region = (struct sa_huge_part){.used_pages = ret->region.used_pages,
                                             .free_pages = ret->region.free_pages,
                                             .unmapped_pages = ret->region.unmapped_pages};
    ret->part_cache = (struct sa_huge_part){.used_pages = large_pages,
                                            .free_pages = ret->cache.cached * SA_HUGE_PAGES};
    ret->part_alloc = (struct sa_huge_part){.unmapped_pages = ret->address.free * SA_HUGE_PAGES};
}

void sa_huge_heap_report(struct sa_huge_heap *h, struct sa_huge_stats *ret)
{
    const struct sa_huge_node *longest;
    size_t large_pages;

    memset(ret, 0, sizeof(*ret));
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    heap_fill_stats(h, &ret->heap);
    sa_huge_filler_report(&h->filler, &ret->filler);
    sa_huge_cache_report(&h->cache, &ret->cache);
    longest = sa_huge_map_longest(&h->released);
    ret->address.nodes_used = h->nodes.created - h->nodes.unused_count;
    ret->address.nodes_created = h->nodes.created;
    ret->address.longest = longest ? longest->length : 0;
    ret->address.free = h->released.hugepages;
    ret->address.requested = h->mapped;
    ret->address.in_use = h->mapped - h->released.hugepages;
    large_pages = h->large_pages;
    ret->collapse = h->collapse;
    ret->sizes = h->sizes;
    ret->started_ns = h->started_ns;
    heap_walk(h, ret);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    fill_parts(large_pages, ret);
}

static bool address_is_free(const struct sa_huge_heap *h, uintptr_t address)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_span *recent = h->recent;
    size_t hugepage = address >> SA_HUGE_SHIFT;
    struct sa_huge_tracker *t = sa_hugepage_map_tracker(&h->owners, hugepage);
    struct sa_huge_region *r = sa_hugepage_map_region(&h->owners, hugepage);

    if (recent && address - recent->start < sa_span_bytes(recent))
        return true;
    if (t)
        return sa_range_is_free(&t->range, sa_huge_page_in(address), 1);
    if (r)
        return sa_range_is_free(
            &r->range, (uint32_t)((address >> SA_PAGE_SHIFT) - r->hugepage * SA_HUGE_PAGES), 1);
    return sa_huge_map_find(&h->cache.map, hugepage) || sa_huge_map_find(&h->released, hugepage);
}

bool sa_huge_heap_is_free(struct sa_huge_heap *h, uintptr_t address)
{
    bool is_free;

    /* The process is about to end: the thread that holds the lock may never release it. */
    for (int i = 0; !sa_lock_try(&h->lock, SA_RANK_PAGE_HEAP); i++)
        if (i == FREE_TRIES)
            return false;
    is_free = address_is_free(h, address);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return is_free;
}
