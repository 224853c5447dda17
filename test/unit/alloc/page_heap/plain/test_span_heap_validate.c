/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checks of the plain heap's invariants: a heap with free spans of both states passes; where
 * one field is wrong, the check of the invariant that the field belongs to ends the program.
 */
#include "alloc/page_heap/plain/span_heap.h"

#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/corruption.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#define HEAP (&sa_page_heap_sampled)

static struct sa_span_heap *heap;
static struct sa_span *backed; /* free, between spans in use */

static void fill(void)
{
    struct sa_span *spans[4];

    heap = HEAP->plain;
    for (int i = 0; i < 4; i++) {
        spans[i] = sa_page_heap_alloc(HEAP, 10, 1, SA_PAGES_ANY);
        assert_non_null(spans[i]);
    }
    backed = spans[1];
    sa_page_heap_free(HEAP, backed, false);
    sa_page_heap_free(HEAP, spans[3], false); /* stays apart: heap->recent */
    assert_int_equal(heap->backed.pages, 10);
    assert_true(heap->released.pages > 0);
}

static void validate(void)
{
    sa_lock_acquire(&heap->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_note(heap);
    sa_span_heap_validate(heap);
    sa_lock_release(&heap->lock, SA_RANK_PAGE_HEAP);
}

static void recent_state(void)
{
    heap->recent->state = SA_SPAN_BACKED;
}

static void recent_length(void)
{
    heap->recent->pages = SA_SPAN_HEAP_RECENT_MAX + 1;
}

static void recent_sum(void)
{
    heap->moving_pages = 0;
}

static void p1_sum(void)
{
    heap->mapped_pages++;
}

static void p2_start(void)
{
    static struct sa_span other;

    other = *backed;
    other.pages = 1; /* the map's first entry becomes that of another span */
    sa_pagemap_set_ends(&other);
}

static void p2_end(void)
{
    static struct sa_span other;

    other = *backed;
    other.start += 9 * SA_PAGE_BYTES;
    other.pages = 1;
    sa_pagemap_set_ends(&other);
}

static void p3_neighbours(void)
{
    sa_pagemap_span(backed->start - 1)->state = SA_SPAN_BACKED;
}

static void p4_window(void)
{
    struct sa_span *s = heap->released.first[sa_free_list_index(heap->released.pages)];

    assert_non_null(s);
    s->start = SA_HOME_START + 2 * SA_HOME_BYTES - SA_PAGE_BYTES; /* to the end of the window */
    if (sa_pagemap_grow(s->start, 2 * SA_PAGE_BYTES + sa_span_bytes(s)))
        sa_pagemap_set_ends(s);
}

static void list_state(void)
{
    backed->state = SA_SPAN_RELEASED;
}

static void list_length(void)
{
    backed->pages--;
}

static void list_link(void)
{
    backed->prev = backed;
}

static void list_bit(void)
{
    heap->backed.filled[3] |= 1;
}

static void list_sum(void)
{
    heap->backed.pages++;
}

static const struct corruption corruptions[] = {
    {recent_state, "s->state == SA_SPAN_MOVING"},
    {recent_length, "s->pages <= SA_SPAN_HEAP_RECENT_MAX"},
    {recent_sum, "h->moving_pages >= s->pages"},
    {p1_sum, "h->mapped_pages == "},
    {p2_start, "sa_pagemap_span(s->start) == s"},
    {p2_end, "sa_pagemap_span(sa_span_end(s) - 1) == s"},
    {p3_neighbours, "!prev || "},
    {p4_window, "sa_same_window(s->start, sa_span_end(s) - 1)"},
    {list_state, "s->state == state"},
    {list_length, "sa_free_list_index(s->pages) == index"},
    {list_link, "s->prev == prev"},
    {list_bit, "lists->filled[i / 64]"},
    {list_sum, "lists->pages == pages"},
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

static void tick_of_wrong_heap(void *unused)
{
    (void)unused;
    heap->in_use_pages++;
    sa_page_heap_tick(HEAP, 1000000000);
}

static void test_validate_runs_at_ticks_of_debug_builds_only(void **state)
{
    (void)state;
    check_finds_at_ticks(tick_of_wrong_heap, "h->mapped_pages == ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_validate_passes_a_heap_in_order),
        cmocka_unit_test(test_validate_ends_the_program_when_a_field_is_wrong),
        cmocka_unit_test(test_validate_runs_at_ticks_of_debug_builds_only),
    };

    test_start_layers();
    fill();
    return cmocka_run_group_tests_name("span_heap_validate", tests, NULL, NULL);
}
