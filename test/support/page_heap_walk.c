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
    size_t spans;
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
    found.spans++;
    found.in_use += s->pages;
    return s;
}

/* Spans fill the taken pages exactly, and the others are known to be free. */
static void walk_taken(const struct sa_range_tracker *range, uintptr_t start, uint32_t from)
{
    uint32_t at = from;

    while (at < range->pages) {
        uint32_t end = sa_bits_next(range->words, range->pages, at, true);

        if (end > at) {
            assert_true(sa_page_heap_is_free(&sa_page_heap_ordinary,
                                             start + ((uintptr_t)at << SA_PAGE_SHIFT)));
            at = end;
        } else {
            at += span_in_use_at(start + ((uintptr_t)at << SA_PAGE_SHIFT))->pages;
        }
    }
    assert_int_equal(at, range->pages);
}

static void walk_tracker(const struct sa_huge_tracker *t, size_t hugepage)
{
    assert_int_equal(t->moving_pages, 0);
    if (t->tail_pages) {
        uintptr_t end = hugepage_at(hugepage) + ((uintptr_t)t->tail_pages << SA_PAGE_SHIFT);
        struct sa_span *s = sa_pagemap_span(end - 1);

        assert_non_null(s);
        assert_int_equal(sa_span_end(s), end);
        assert_true(s->start < hugepage_at(hugepage));
    }
    walk_taken(&t->range, hugepage_at(hugepage), t->tail_pages);
    found.backed += sa_huge_tracker_backed(t);
    found.released += SA_HUGE_PAGES - t->range.taken - sa_huge_tracker_backed(t);
}

static void walk_region(const struct sa_huge_region *r)
{
    assert_int_equal(r->moving_pages, 0);
    walk_taken(&r->range, hugepage_at(r->hugepage), 0);
    found.backed += sa_huge_region_backed(r);
    found.released += r->unbacked_pages;
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
    return hugepage + s->pages / SA_HUGE_PAGES;
}

void page_heap_check(void)
{
    struct sa_page_heap_stats stats;
    size_t mapped = 0;

    heap = sa_page_heap_ordinary.huge;
    memset(&found, 0, sizeof(found));
    sa_page_heap_stats(&sa_page_heap_ordinary, &stats); /* first: it settles what was freed last */
    sa_lock_acquire(&heap->lock, SA_RANK_PAGE_HEAP);
    assert_int_equal(heap->moving, 0);
    sa_huge_heap_validate(heap);
    sa_lock_release(&heap->lock, SA_RANK_PAGE_HEAP);
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
