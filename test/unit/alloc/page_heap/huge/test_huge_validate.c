/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the hugepage-aware heap's invariants: a heap with spans in each component passes;
 * where one field is wrong, the check of the invariant that the field belongs to ends the program.
 */
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/corruption.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#define HEAP  (&sa_page_heap_ordinary)
#define SPANS 60

static struct sa_huge_heap *heap;
static struct sa_span *small, *large;

static struct sa_span *span(size_t pages)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, pages, 1, SA_PAGES_ANY);

    assert_non_null(s);
    return s;
}

static struct sa_huge_tracker *tracker(void)
{
    return sa_hugepage_map_tracker(&heap->owners, small->start >> SA_HUGE_SHIFT);
}

/* A span in the filler, a large one with a tail, some in a region, cached and unbacked hugepages,
 * and the span that was freed last. */
static void fill(void)
{
    struct sa_span *cached;

    heap = HEAP->huge;
    small = span(3);
    large = span(3 * SA_HUGE_PAGES + 7);
    cached = span(2 * SA_HUGE_PAGES);
    for (int i = 0; i < SPANS; i++) /* until rounding up has wasted 64 MiB */
        span(SA_HUGE_PAGES + 30);
    sa_page_heap_free(HEAP, span(4 * SA_HUGE_PAGES), true); /* unbacked */
    sa_page_heap_free(HEAP, cached, false);
    sa_page_heap_free(HEAP, span(5), false);
    sa_page_heap_free(HEAP, span(6), false);
    assert_non_null(heap->regions);
    assert_non_null(heap->recent);
    assert_true(heap->cache.map.hugepages > 0 && heap->released.hugepages > 0);
}

static void validate(void)
{
    sa_lock_acquire(&heap->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_note(heap);
    sa_huge_heap_validate(heap);
    sa_lock_release(&heap->lock, SA_RANK_PAGE_HEAP);
}

static void h1_mapped(void)
{
    heap->mapped++;
}

static void h1_in_two_places(void)
{
    sa_huge_map_insert(&heap->released, &heap->nodes, large->start >> SA_HUGE_SHIFT, 1, 0);
}

static void h1_usage(void)
{
    heap->cache.usage++;
}

static void h2_owner(void)
{
    sa_hugepage_map_set(&heap->owners, large->start >> SA_HUGE_SHIFT, (uintptr_t)tracker());
}

static void h2_no_owner(void)
{
    sa_hugepage_map_set(&heap->owners, tracker()->hugepage, 0);
}

static void h3_start(void)
{
    small->start += SA_PAGE_BYTES;
}

static void h3_end(void)
{
    static struct sa_span other;

    other = *small;
    other.start += SA_PAGE_BYTES;
    other.pages = 2; /* the map's last entry becomes that of another span */
    sa_pagemap_set_ends(&other);
}

static void h3_state(void)
{
    small->state = SA_SPAN_BACKED;
}

static void h3_heap(void)
{
    small->heap++;
}

static void h4_items(void)
{
    heap->items--;
}

static void h4_nodes(void)
{
    heap->nodes.unused_count = heap->items - 1;
}

static void h5_state(void)
{
    heap->recent->state = SA_SPAN_LARGE;
}

static void f1_taken(void)
{
    heap->filler.taken_pages++;
}

static void f1_bitmap(void)
{
    tracker()->range.taken++;
}

static void f1_clear(void)
{
    struct sa_huge_tracker *t = tracker();

    t->unbacked[0] ^= 1;
    t->unbacked_pages++;
}

static void f1_longest(void)
{
    tracker()->range.longest--;
}

static void f2_list(void)
{
    tracker()->list++;
}

static void f2_kind(void)
{
    tracker()->dense = true;
}

static void f2_bucket(void)
{
    struct sa_huge_tracker **bucket = &heap->filler.buckets[0][tracker()->bucket];

    heap->filler.buckets[0][1] = *bucket;
    *bucket = NULL;
}

static void f3_sum(void)
{
    heap->filler.unbacked_pages[1]++;
}

static void region_taken(void)
{
    heap->regions->taken[100]++;
}

static void region_clear(void)
{
    heap->regions->unbacked_pages--;
}

static void treap_longest(void)
{
    heap->released.root->longest++;
}

static void treap_sum(void)
{
    heap->cache.map.hugepages++;
}

static void large_tail(void)
{
    struct sa_huge_tracker *t =
        sa_hugepage_map_tracker(&heap->owners, (sa_span_end(large) - 1) >> SA_HUGE_SHIFT);

    t->tail_pages--;
    heap->filler.tail_pages--;
}

static void pages_in_use(void)
{
    heap->in_use_pages++;
}

static void spans_by_length(void)
{
    heap->sizes.small_live_pages++;
}

static const struct corruption corruptions[] = {
    {h1_mapped, "h->mapped == "},
    {h1_in_two_places, "!sa_huge_map_find(map, hugepage)"},
    {h1_usage, "h->cache.usage + "},
    {h2_owner, "t->hugepage == hugepage"},
    {h2_no_owner, "h->mapped == "},
    {h3_start, "s->start == start"},
    {h3_end, "sa_pagemap_span(sa_span_end(s) - 1) == s"},
    {h3_state, "state != SA_SPAN_BACKED"},
    {h3_heap, "s->heap == h->number"},
    {h4_items, "h->items == items"},
    {h4_nodes, "h->nodes.unused_count >= h->items"},
    {h5_state, "state == SA_SPAN_MOVING"},
    {f1_taken, "f->taken_pages == sums.taken"},
    {f1_bitmap, "t->taken == "},
    {f1_clear, "(t->unbacked[i] & t->taken[i]) == 0"},
    {f1_longest, "t->range.longest"},
    {f2_list, "t->list == i"},
    {f2_kind, "t->dense == set % 2"},
    {f2_bucket, "b == "},
    {f3_sum, "f->unbacked_pages[i] == sums.unbacked[i]"},
    {region_taken, "r->taken[i] == "},
    {region_clear, "r->unbacked_pages == unbacked_pages"},
    {treap_longest, "node->longest == longest"},
    {treap_sum, "walk.hugepages == map->hugepages"},
    {large_tail, "s->start == start"},
    {pages_in_use, "live_pages == pages"},
    {spans_by_length, "info->small_live_pages == small"},
};

static void test_validate_passes_a_heap_in_order(void **state)
{
    (void)state;
    check_passes_in_order(validate);
}

static void test_validate_ends_the_program_when_a_field_is_wrong(void **state)
{
    (void)state;
    check_finds(validate, corruptions, sizeof(corruptions) / sizeof(*corruptions));
}

static void wrong_footprint(void *unused)
{
    (void)unused;
    sa_lock_acquire(&heap->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_note(heap);
    sa_footprint.used[heap->number]++;
    sa_huge_heap_validate(heap);
}

static void test_validate_compares_the_footprint_with_the_heap(void **state)
{
    (void)state;
    test_child_aborts(wrong_footprint, NULL, "sa_footprint.used[heap]");
}

static void tick_of_wrong_heap(void *unused)
{
    (void)unused;
    heap->filler.abandoned_pages++;
    sa_page_heap_tick(HEAP, 1000000000);
}

static void test_validate_runs_at_ticks_of_debug_builds_only(void **state)
{
    (void)state;
    check_finds_at_ticks(tick_of_wrong_heap, "f->abandoned_pages == sums.abandoned");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_validate_passes_a_heap_in_order),
        cmocka_unit_test(test_validate_ends_the_program_when_a_field_is_wrong),
        cmocka_unit_test(test_validate_compares_the_footprint_with_the_heap),
        cmocka_unit_test(test_validate_runs_at_ticks_of_debug_builds_only),
    };

    test_start_layers();
    fill();
    return cmocka_run_group_tests_name("huge_validate", tests, NULL, NULL);
}
