/* SPDX-License-Identifier: Apache-2.0 */
/* Walking over all spans of the ordinary page heap; see page_heap_walk.h. */
#include "test/support/page_heap_walk.h"

#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/cmocka.h"

#include <string.h>

void *__real_sa_vm_map_space(void *hint, size_t bytes, const char *name);
void *__wrap_sa_vm_map_space(void *hint, size_t bytes, const char *name);
void __real_sa_vm_unmap_space(void *p, size_t bytes);
void __wrap_sa_vm_unmap_space(void *p, size_t bytes);

/* What the heap holds: ranges that do not touch each other. */
#define RANGES_MAX 4096
static struct range {
    uintptr_t start, end;
} ranges[RANGES_MAX];
static size_t range_count;

static void range_add(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < range_count;) {
        struct range *r = &ranges[i];

        assert_true(end <= r->start || start >= r->end); /* the kernel does not map twice */
        if (r->end == start || r->start == end) {
            start = r->end == start ? r->start : start;
            end = r->start == end ? r->end : end;
            *r = ranges[--range_count];
            i = 0;
        } else {
            i++;
        }
    }
    assert_true(range_count < RANGES_MAX);
    ranges[range_count++] = (struct range){start, end};
}

/* Ranges of others (metadata) are not known here and left alone. */
static void range_remove(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < range_count; i++) {
        struct range r = ranges[i];

        if (start < r.start || end > r.end)
            continue;
        ranges[i] = ranges[--range_count];
        if (r.start < start)
            range_add(r.start, start);
        if (end < r.end)
            range_add(end, r.end);
        return;
    }
}

void page_heap_mapped(void *p, size_t bytes)
{
    range_add((uintptr_t)p, (uintptr_t)p + bytes);
}

void page_heap_unmapped(void *p, size_t bytes)
{
    range_remove((uintptr_t)p, (uintptr_t)p + bytes);
}

void page_heap_each_range(void (*visit)(uintptr_t start, uintptr_t end))
{
    for (size_t i = 0; i < range_count; i++)
        visit(ranges[i].start, ranges[i].end);
}

void page_heap_forget(void)
{
    range_count = 0;
}

#ifndef PAGE_HEAP_FAKE
void *__wrap_sa_vm_map_space(void *hint, size_t bytes, const char *name)
{
    void *p = __real_sa_vm_map_space(hint, bytes, name);

    if (p && strcmp(name, "salloc:heap") == 0)
        page_heap_mapped(p, bytes);
    return p;
}

void __wrap_sa_vm_unmap_space(void *p, size_t bytes)
{
    page_heap_unmapped(p, bytes);
    __real_sa_vm_unmap_space(p, bytes);
}
#endif

static struct sa_huge_heap *heap;

/* What was found on the way. */
static struct walk {
    size_t in_use, backed, released; /* pages */
    size_t spans, trackers, regions, large, taken, clear[3], abandoned, tails;
} found;

static uintptr_t hugepage_at(size_t hugepage)
{
    return (uintptr_t)hugepage << SA_HUGE_SHIFT;
}

static struct sa_span *span_in_use_at(uintptr_t start)
{
    struct sa_span *s = sa_pagemap_span(start);

    assert_non_null(s);
    assert_int_equal(s->start, start);
    assert_in_range(s->state, SA_SPAN_OBJECTS, SA_SPAN_LARGE);
    assert_true(s->pages > 0);
    assert_ptr_equal(sa_pagemap_span(sa_span_end(s) - 1), s);
    found.spans++;
    found.in_use += s->pages;
    return s;
}

/* Spans fill the taken pages exactly; the number of them. */
static size_t walk_taken(const struct sa_range_tracker *range, uintptr_t start, uint32_t from)
{
    uint32_t longest = 0, taken = from, at = from;
    size_t spans = 0;

    while (at < range->pages) {
        uint32_t end = sa_bits_next(range->words, range->pages, at, true);

        if (end > at) {
            longest = end - at > longest ? end - at : longest;
            assert_true(sa_page_heap_is_free(&sa_page_heap_ordinary,
                                             start + ((uintptr_t)at << SA_PAGE_SHIFT)));
            at = end;
        } else {
            struct sa_span *s = span_in_use_at(start + ((uintptr_t)at << SA_PAGE_SHIFT));

            assert_int_equal(sa_bits_count(range->words, at, s->pages), s->pages);
            taken += s->pages;
            at += s->pages;
            spans++;
        }
    }
    assert_int_equal(range->taken, taken);
    assert_int_equal(range->longest, longest);
    return spans;
}

static void walk_tracker(const struct sa_huge_tracker *t, size_t hugepage)
{
    size_t clear = 0, spans;

    assert_int_equal(t->hugepage, hugepage);
    assert_int_equal(t->moving_pages, 0);
    if (t->tail_pages) {
        uintptr_t end = hugepage_at(hugepage) + ((uintptr_t)t->tail_pages << SA_PAGE_SHIFT);
        struct sa_span *s = sa_pagemap_span(end - 1);

        assert_non_null(s);
        assert_int_equal(sa_span_end(s), end);
        assert_true(s->start < hugepage_at(hugepage));
    }
    spans = walk_taken(&t->range, hugepage_at(hugepage), t->tail_pages);
    assert_int_equal(t->range.allocations, spans + (t->tail_pages > 0));
    if (t->donated)
        assert_int_equal(t->range.allocations, 1);
    for (int i = 0; i < SA_HUGE_WORDS; i++) {
        assert_int_equal(t->clear[i] & t->taken[i], 0);
        clear += (size_t)__builtin_popcountll(t->clear[i]);
    }
    assert_int_equal(t->clear_pages, clear);
    if (t->range.taken == 0)
        assert_ptr_equal(heap->spare, t); /* others do not stay empty */
    found.trackers++;
    found.taken += t->range.taken;
    found.clear[sa_huge_tracker_clears(t)] += clear;
    found.backed += sa_huge_tracker_backed(t);
    found.released += SA_HUGE_PAGES - t->range.taken - sa_huge_tracker_backed(t);
    found.abandoned += t->abandoned;
    found.tails += t->tail_pages;
}

static void walk_region(const struct sa_huge_region *r)
{
    size_t clear_pages = 0;

    assert_int_equal(walk_taken(&r->range, hugepage_at(r->hugepage), 0), r->range.allocations);
    assert_int_equal(r->moving_pages, 0);
    for (uint32_t i = 0; i < SA_REGION_HUGEPAGES; i++) {
        assert_int_equal(r->taken[i], sa_bits_count(r->words, i * SA_HUGE_PAGES, SA_HUGE_PAGES));
        assert_int_equal(r->clears[i], sa_bits_count(r->clear, i * SA_HUGE_PAGES, SA_HUGE_PAGES));
        assert_ptr_equal(sa_hugepage_map_region(&heap->owners, r->hugepage + i), r);
        clear_pages += r->clears[i];
    }
    for (uint32_t i = 0; i < SA_REGION_PAGES / 64; i++)
        assert_int_equal(r->words[i] & r->clear[i], 0);
    assert_int_equal(r->clear_pages, clear_pages);
    found.regions++;
    found.backed += sa_huge_region_backed(r);
    found.released += clear_pages;
}

/* The hugepage, and where the next thing begins. */
static size_t walk_hugepage(size_t hugepage)
{
    struct sa_huge_tracker *t = sa_hugepage_map_tracker(&heap->owners, hugepage);
    struct sa_huge_region *r = sa_hugepage_map_region(&heap->owners, hugepage);
    const struct sa_huge_node *cached = sa_huge_map_find(&heap->cache.map, hugepage);
    const struct sa_huge_node *released = sa_huge_map_find(&heap->released, hugepage);
    struct sa_span *s;

    assert_int_equal((t != NULL) + (r != NULL) + (cached != NULL) + (released != NULL) <= 1, 1);
    if (t) {
        walk_tracker(t, hugepage);
        return hugepage + 1;
    }
    if (r) {
        assert_int_equal(r->hugepage, hugepage);
        walk_region(r);
        return hugepage + SA_REGION_HUGEPAGES;
    }
    if (cached || released) {
        assert_int_equal((cached ? cached : released)->start, hugepage);
        *(cached ? &found.backed : &found.released) +=
            (cached ? cached : released)->length * SA_HUGE_PAGES;
        return hugepage + (cached ? cached : released)->length;
    }
    s = span_in_use_at(hugepage_at(hugepage));
    assert_true(s->pages >= SA_HUGE_PAGES);
    found.large++;
    return hugepage + s->pages / SA_HUGE_PAGES;
}

/* Each tracker is where a search would look for it. */
static size_t walk_lists(void)
{
    size_t trackers = 0;

    for (int broken = 0; broken < 2; broken++)
        for (unsigned b = 0; b < SA_FILLER_BUCKETS; b++)
            for (struct sa_huge_tracker *t = heap->filler.buckets[broken][b]; t;
                 t = t->free_next, trackers++) {
                uint32_t backed = sa_huge_tracker_backed(t);

                assert_int_equal(t->broken, broken);
                assert_int_equal(b, backed ? backed / 8 + 1 : 0);
            }
    for (unsigned set = 0; set < SA_FILLER_SETS; set++)
        for (unsigned i = 0; i < SA_FILLER_LISTS; i++) {
            const struct sa_filler_set *lists = &heap->filler.sets[set];

            assert_int_equal(lists->filled[i / 64] >> i % 64 & 1,
                             *sa_filler_list(lists, i) != NULL);
            for (struct sa_huge_tracker *t = *sa_filler_list(lists, i); t; t = t->next) {
                assert_int_equal(t->set, set);
                assert_int_equal(t->range.longest, i / SA_FILLER_CHUNKS);
                assert_int_equal(t->dense, set % 2);
                trackers++;
            }
        }
    assert_int_equal(trackers % 2, 0);
    return trackers / 2;
}

/* Spans in use by their lengths are all of those found. */
static void check_size_info(const struct sa_size_info *sizes)
{
    size_t spans = 0, pages = 0, small = 0;

    for (unsigned i = 0; i < SA_SIZE_BUCKETS; i++) {
        struct sa_size_pages p = sa_size_info_pages(sizes, i);
        size_t live = sizes->count[i].allocs - sizes->count[i].frees;

        assert_in_range(p.allocated - p.freed, live * sa_size_info_least(i),
                        live * sa_size_info_most(i));
        spans += live;
        pages += p.allocated - p.freed;
        small += i < SA_SIZE_EXACT ? p.allocated - p.freed : 0;
    }
    assert_int_equal(spans, found.spans);
    assert_int_equal(pages, found.in_use);
    assert_int_equal(small, sizes->small_live_pages);
}

void page_heap_check(void)
{
    struct sa_page_heap_stats stats;
    size_t mapped = 0;

    heap = sa_page_heap_ordinary.huge;
    memset(&found, 0, sizeof(found));
    sa_page_heap_stats(&sa_page_heap_ordinary, &stats); /* first: it settles what was freed last */
    for (size_t i = 0; i < range_count; i++) {
        size_t at = ranges[i].start >> SA_HUGE_SHIFT, end = ranges[i].end >> SA_HUGE_SHIFT;

        mapped += end - at;
        while (at < end)
            at = walk_hugepage(at);
        assert_int_equal(at, end);
    }
    assert_int_equal(stats.mapped_bytes, mapped << SA_HUGE_SHIFT);
    assert_int_equal(stats.backed_bytes, found.backed << SA_PAGE_SHIFT);
    assert_int_equal(stats.released_bytes, found.released << SA_PAGE_SHIFT);
    assert_int_equal(stats.in_use_bytes, found.in_use << SA_PAGE_SHIFT);
    assert_int_equal(stats.moving_bytes, 0);
    assert_int_equal(stats.spans_in_use, found.spans);
    check_size_info(&heap->sizes);
    assert_int_equal(heap->filler.hugepages, found.trackers);
    assert_int_equal(walk_lists(), found.trackers);
    assert_int_equal(heap->filler.taken_pages, found.taken);
    for (int i = 0; i < 3; i++)
        assert_int_equal(heap->filler.clear_pages[i], found.clear[i]);
    assert_int_equal(heap->filler.abandoned_pages, found.abandoned);
    assert_int_equal(heap->filler.tail_pages, found.tails);
    assert_int_equal(heap->items, found.trackers + found.regions + found.large);
    assert_true(heap->nodes.unused_count >= heap->items);
    assert_int_equal(heap->nodes.created - heap->nodes.unused_count,
                     heap->cache.map.ranges + heap->released.ranges);
    assert_int_equal(heap->cache.usage,
                     heap->mapped - heap->cache.map.hugepages - heap->released.hugepages);
}

bool page_heap_is_zero(const struct sa_span *span)
{
    const uint64_t *p = (const uint64_t *)span->start;

    for (size_t i = 0; i < sa_span_bytes(span) / sizeof(*p); i++)
        if (p[i])
            return false;
    return true;
}

size_t page_heap_ranges(void)
{
    return range_count;
}
