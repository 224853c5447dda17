/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the invariants of the hugepage-aware heap, H1 to H5 of huge_heap_internal.h, and that its
 * counts are those of its components. Debug builds run it at ticks, with the lock held. Other
 * threads may be releasing memory meanwhile: they have let go of the lock, and what they release is
 * moving.
 */
#include "alloc/base/fatal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "pagemap/pagemap.h"

/* What was found on the way. */
struct found {
    size_t spans, pages; /* in use, the span freed last among them */
    size_t trackers, regions;
    size_t large, large_hugepages;
};

/* H3: the span that begins at the address. Its owner may change what it is used for meanwhile. */
static const struct sa_span *span_validate(const struct sa_huge_heap *h, uintptr_t start,
                                           struct found *found) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_span *s = sa_pagemap_span(start);
    unsigned state;

    SA_CHECK(s != NULL);
    SA_CHECK(s->heap == h->number);
    SA_CHECK(s->start == start);
    SA_CHECK(s->pages > 0);
    SA_CHECK(sa_pagemap_span(sa_span_end(s) - 1) == s);
    state = sa_load_relaxed(&s->state);
    SA_CHECK(state != SA_SPAN_UNUSED && state != SA_SPAN_BACKED && state != SA_SPAN_RELEASED &&
             state != SA_SPAN_GUARDED);
    if (s == h->recent)
        SA_CHECK(state == SA_SPAN_MOVING);
    found->spans++;
    found->pages += s->pages;
    return s;
}

/* Spans fill the taken pages from `from` on exactly. Returns how many there are. */
static size_t taken_validate(const struct sa_huge_heap *h, const struct sa_range_tracker *range,
                             size_t hugepage, uint32_t from, struct found *found)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    uint32_t at = sa_bits_next(range->words, range->pages, from, true);
    uintptr_t start = hugepage << SA_HUGE_SHIFT;
    size_t spans = 0;

    while (at < range->pages) {
        const struct sa_span *s = span_validate(h, start + ((uintptr_t)at << SA_PAGE_SHIFT), found);

        SA_CHECK(s->pages <= range->pages - at);
        SA_CHECK(sa_bits_count(range->words, at, s->pages) == s->pages);
        spans++;
        at = sa_bits_next(range->words, range->pages, at + s->pages, true);
    }
    return spans;
}

/* Pages of spans only, unless some are moving: they are taken, too. */
static void tracker_validate(const struct sa_huge_heap *h, const struct sa_huge_tracker *t,
                             size_t hugepage, struct found *found) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    SA_CHECK(t->hugepage == hugepage);
    SA_CHECK(!sa_huge_map_find(&h->cache.map, hugepage));
    SA_CHECK(!sa_huge_map_find(&h->released, hugepage));
    if (t->range.taken == 0)
        SA_CHECK(h->last_empty == t);
    if (t->moving_pages == 0)
        SA_CHECK(t->range.allocations ==
                 taken_validate(h, &t->range, hugepage, t->tail_pages, found) +
                     (t->tail_pages > 0));
    found->trackers++;
}

/* The counts of a region are those of its bitmaps. */
static void bitmaps_validate(const struct sa_huge_region *r)
{
    size_t unbacked_pages = 0;

    sa_range_validate(&r->range);
    for (uint32_t i = 0; i < SA_REGION_HUGEPAGES; i++) {
        SA_CHECK(r->taken[i] == sa_bits_count(r->words, i * SA_HUGE_PAGES, SA_HUGE_PAGES));
        SA_CHECK(r->unbacked_in[i] == sa_bits_count(r->unbacked, i * SA_HUGE_PAGES, SA_HUGE_PAGES));
        unbacked_pages += r->unbacked_in[i];
    }
    for (uint32_t i = 0; i < SA_REGION_PAGES / 64; i++)
        SA_CHECK((r->words[i] & r->unbacked[i]) == 0);
    SA_CHECK(r->unbacked_pages == unbacked_pages);
    SA_CHECK(r->moving_pages <= r->range.taken);
}

static void region_validate(const struct sa_huge_heap *h, const struct sa_huge_region *r,
                            struct found *found) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    bitmaps_validate(r);
    for (size_t i = 0; i < SA_REGION_HUGEPAGES; i++) {
        SA_CHECK(sa_hugepage_map_region(&h->owners, r->hugepage + i) == r);
        SA_CHECK(!sa_huge_map_find(&h->cache.map, r->hugepage + i));
        SA_CHECK(!sa_huge_map_find(&h->released, r->hugepage + i));
    }
    if (r->moving_pages == 0)
        SA_CHECK(r->range.allocations == taken_validate(h, &r->range, r->hugepage, 0, found));
    found->regions++;
}

/* H2: the hugepages have no owner; and lie within the heap. */
static void ownerless_validate(const struct sa_huge_heap *h, size_t hugepage, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    SA_CHECK(hugepage >= h->first && n <= h->end - hugepage);
    SA_CHECK(sa_hugepage_map_next(&h->owners, hugepage, hugepage + n, SIZE_MAX) == hugepage + n);
}

/* H1: no range of the map begins in, or reaches into, the hugepages. */
static void apart_validate(const struct sa_huge_map *map, size_t hugepage, size_t n)
{
    const struct sa_huge_node *next = sa_huge_map_from(map, hugepage);

    SA_CHECK(!sa_huge_map_find(map, hugepage));
    SA_CHECK(!next || next->start >= hugepage + n);
}

/* Ranges of one map, which are apart from those of the other. */
static void ranges_validate(const struct sa_huge_heap *h, const struct sa_huge_map *map,
                            const struct sa_huge_map *other) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_huge_node *node;

    sa_huge_map_validate(map);
    for (size_t at = 0; (node = sa_huge_map_from(map, at)) != NULL;
         at = node->start + node->length) {
        ownerless_validate(h, node->start, node->length);
        apart_validate(other, node->start, node->length);
    }
}

/* The tail's part of a large span is in the filler. */
static void large_validate(const struct sa_huge_heap *h, struct found *found)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_span *prev = NULL;

    for (const struct sa_span *s = h->large_spans; s; prev = s, s = s->next) {
        size_t first = s->start >> SA_HUGE_SHIFT, full = s->pages / SA_HUGE_PAGES;
        uint32_t tail = s->pages % SA_HUGE_PAGES;
        const struct sa_huge_tracker *t =
            tail ? sa_hugepage_map_tracker(&h->owners, first + full) : NULL;

        span_validate(h, s->start, found);
        SA_CHECK(s->prev == prev);
        SA_CHECK(full > 0 && sa_huge_page_in(s->start) == 0);
        ownerless_validate(h, first, full);
        apart_validate(&h->cache.map, first, full);
        apart_validate(&h->released, first, full);
        if (tail)
            SA_CHECK(t && t->tail_pages == tail);
        found->large++;
        found->large_hugepages += full;
    }
}

/* Trackers and regions, by the hugepage map. */
static void owners_validate(const struct sa_huge_heap *h, struct found *found)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t at = h->first;

    while ((at = sa_hugepage_map_next(&h->owners, at, h->end, SIZE_MAX)) < h->end) {
        const struct sa_huge_region *r = sa_hugepage_map_region(&h->owners, at);

        if (r) {
            SA_CHECK(r->hugepage == at);
            region_validate(h, r, found);
            at += SA_REGION_HUGEPAGES;
        } else {
            tracker_validate(h, sa_hugepage_map_tracker(&h->owners, at), at, found);
            at++;
        }
    }
}

/* The sums of the components are those of the heap. Pages that move may be of spans that were not
 * found. */
static void sums_validate(const struct sa_huge_heap *h, const struct found *found)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t items = found->trackers + found->regions + found->large;
    bool moving = h->moving || h->filler.moving_pages;

    for (const struct sa_huge_region *r = h->regions; r; r = r->next)
        moving = moving || r->moving_pages;
    /* H1 */
    SA_CHECK(h->mapped == h->released.hugepages + h->cache.map.hugepages + found->trackers +
                              found->regions * SA_REGION_HUGEPAGES + found->large_hugepages +
                              h->moving);
    SA_CHECK(h->cache.usage + h->cache.map.hugepages + h->released.hugepages + h->moving ==
             h->mapped);
    SA_CHECK(h->filler.hugepages == found->trackers);
    SA_CHECK(h->large_pages == found->large_hugepages * SA_HUGE_PAGES);
    /* H4: a range that is being unmapped needs no item. */
    SA_CHECK(h->moving ? h->items >= items : h->items == items);
    SA_CHECK(h->nodes.unused_count >= h->items);
    SA_CHECK(h->nodes.created - h->nodes.unused_count == h->cache.map.ranges + h->released.ranges);
    SA_CHECK(h->empty_pages <= h->in_use_pages);
    sa_size_info_validate(&h->sizes, h->stats.spans_in_use, h->in_use_pages);
    if (moving)
        return;
    SA_CHECK(found->spans == h->stats.spans_in_use + (h->recent != NULL));
    SA_CHECK(found->pages == h->in_use_pages + (h->recent ? h->recent->pages : 0));
}

void sa_huge_heap_validate(struct sa_huge_heap *h)
{
    struct found found = {0};

    ranges_validate(h, &h->cache.map, &h->released);
    ranges_validate(h, &h->released, &h->cache.map);
    sa_huge_filler_validate(&h->filler);
    owners_validate(h, &found);
    large_validate(h, &found);
    sums_validate(h, &found);
    sa_limits_validate(h->number, sa_huge_heap_used(h) << SA_PAGE_SHIFT);
}
