/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of the hugepage-aware heap; see huge_stats.h for what they mean. */
#include "alloc/page_heap/huge_heap.h"

#include <string.h>

static void heap_fill_stats(struct sa_huge_heap *h, struct sa_page_heap_stats *ret)
{
    size_t moving = h->moving * SA_HUGE_PAGES + h->filler.moving_pages;
    /* Giving back the span that was freed last may have dropped the lock, and another taken its place. */
    size_t backed = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0);

    for (struct sa_huge_region *r = h->regions; r; r = r->next)
        moving += r->moving_pages;
    *ret = h->stats;
    ret->mapped_bytes = h->mapped * SA_HUGE_BYTES;
    ret->in_use_bytes = h->in_use_pages << SA_PAGE_SHIFT;
    ret->backed_bytes = backed << SA_PAGE_SHIFT;
    ret->moving_bytes = moving << SA_PAGE_SHIFT;
    ret->released_bytes = sa_huge_heap_released(h) << SA_PAGE_SHIFT;
}

void sa_huge_heap_stats(struct sa_huge_heap *h, struct sa_page_heap_stats *ret)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    heap_fill_stats(h, ret);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

static void map_ages(const struct sa_huge_map *map, bool released, uint64_t now_ns,
                     struct sa_span_ages *ages)
{
    for (const struct sa_huge_node *n = sa_huge_map_from(map, 0); n;
         n = sa_huge_map_from(map, n->start + 1))
        sa_span_ages_add(ages, n->length * SA_HUGE_PAGES, released, now_ns - n->since_ns);
}

static void heap_fill_parts(struct sa_huge_heap *h, struct sa_huge_stats *ret)
{
    ret->part_filler = (struct sa_huge_part){.used_pages = ret->filler.used_pages,
                                             .free_pages = ret->filler.free_pages,
                                             .unmapped_pages = ret->filler.unmapped_pages};
    ret->part_region = (struct sa_huge_part){.used_pages = ret->region.used_pages,
                                             .free_pages = ret->region.free_pages,
                                             .unmapped_pages = ret->region.unmapped_pages};
    ret->part_cache = (struct sa_huge_part){.used_pages = h->large_pages,
                                            .free_pages = h->cache.map.hugepages * SA_HUGE_PAGES};
    ret->part_alloc =
        (struct sa_huge_part){.unmapped_pages = h->released.hugepages * SA_HUGE_PAGES};
}

/* Free runs of every component. Lock held. */
static void heap_fill_ages(struct sa_huge_heap *h, struct sa_huge_filler_stats *filler,
                           struct sa_huge_region_stats *region, struct sa_span_ages *ages)
{
    sa_huge_filler_report(&h->filler, filler, ages);
    for (struct sa_huge_region *r = h->regions; r; r = r->next)
        sa_huge_region_report(r, region, ages, h->now_ns);
    map_ages(&h->cache.map, false, h->now_ns, ages);
    map_ages(&h->released, true, h->now_ns, ages);
}

void sa_huge_heap_census(struct sa_huge_heap *h, struct sa_size_info *sizes,
                         struct sa_span_ages *ages)
{
    struct sa_huge_filler_stats filler = {0};
    struct sa_huge_region_stats region = {0};

    memset(ages, 0, sizeof(*ages));
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    *sizes = h->sizes;
    heap_fill_ages(h, &filler, &region, ages);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

void sa_huge_heap_report(struct sa_huge_heap *h, struct sa_huge_stats *ret)
{
    const struct sa_huge_node *longest;

    memset(ret, 0, sizeof(*ret));
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    heap_fill_stats(h, &ret->heap);
    heap_fill_ages(h, &ret->filler, &ret->region, &ret->ages);
    sa_huge_cache_report(&h->cache, &ret->cache);
    heap_fill_parts(h, ret);
    longest = sa_huge_map_longest(&h->released);
    ret->address.nodes_used = h->nodes.created - h->nodes.unused_count;
    ret->address.nodes_created = h->nodes.created;
    ret->address.longest = longest ? longest->length : 0;
    ret->address.free = h->released.hugepages;
    ret->address.requested = h->mapped;
    ret->address.in_use = h->mapped - h->released.hugepages;
    ret->collapse = h->collapse;
    ret->sizes = h->sizes;
    ret->started_ns = h->started_ns;
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}
