/* SPDX-License-Identifier: Apache-2.0 */
/* The span that the plain heap freed last: which request gets it, and that it counts as free pages.
 */
#include "alloc/page_heap/plain/span_heap.h"

#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#define HEAP (&sa_page_heap_sampled)

static struct sa_span_heap *heap;

static struct sa_span *take(size_t pages, size_t align)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, pages, align, SA_PAGES_ANY);

    assert_non_null(s);
    assert_int_equal(s->state, SA_SPAN_LARGE);
    assert_int_equal(s->pages, pages);
    return s;
}

static void validate(void)
{
    sa_lock_acquire(&heap->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_validate(heap);
    sa_lock_release(&heap->lock, SA_RANK_PAGE_HEAP);
}

static struct sa_page_heap_stats stats(void)
{
    struct sa_page_heap_stats s;

    sa_page_heap_stats(HEAP, &s);
    validate();
    assert_null(heap->recent);
    assert_int_equal(s.moving_bytes, 0);
    assert_int_equal(s.mapped_bytes, s.in_use_bytes + s.backed_bytes + s.released_bytes);
    return s;
}

static void test_request_of_its_length_gets_the_span_freed_last(void **state)
{
    struct sa_span *a = take(2, 1), *b = take(2, 1);
    uintptr_t start = b->start;

    (void)state;
    sa_page_heap_free(HEAP, a, false);
    sa_page_heap_free(HEAP, b, false);
    assert_ptr_equal(heap->recent, b);
    validate();
    a = take(2, 1);
    validate();
    assert_int_equal(a->start, start);
    assert_false(a->zeroed);
    assert_null(a->sample);
    assert_int_equal(heap->moving_pages, 0);
    sa_page_heap_free(HEAP, a, false);
}

static void test_another_request_finds_the_recent_span_among_the_free_pages(void **state)
{
    struct sa_span *s = take(3, 1), *other;
    uintptr_t start = s->start;

    (void)state;
    sa_page_heap_shrink(HEAP, s, 2); /* frees the third page */
    assert_int_equal(sa_pagemap_span(start + 2 * SA_PAGE_BYTES)->state, SA_SPAN_MOVING);
    sa_page_heap_free(HEAP, s, false);
    assert_ptr_equal(heap->recent, s);
    validate();
    other = take(7, 1);
    assert_null(heap->recent);
    validate(); /* P3: the two are one span, if they are still free */
    s = sa_pagemap_span(start);
    assert_true(s->state == SA_SPAN_BACKED || s == other);
    sa_page_heap_free(HEAP, other, false);
}

static void test_alignment_is_looked_at(void **state)
{
    struct sa_span *s = take(1, 1), *aligned;

    (void)state;
    while (s->start % (8 * SA_PAGE_BYTES) == 0)
        s = take(1, 1);
    sa_page_heap_free(HEAP, s, false);
    aligned = take(1, 8);
    assert_int_equal(aligned->start % (8 * SA_PAGE_BYTES), 0);
    validate();
    sa_page_heap_free(HEAP, aligned, false);
}

static void test_the_recent_span_counts_as_backed_and_is_released(void **state)
{
    struct sa_span *s = take(4, 1);
    struct sa_page_heap_stats before = stats(), after;

    (void)state;
    sa_page_heap_free(HEAP, s, false);
    assert_ptr_equal(heap->recent, s);
    after = stats();
    assert_int_equal(after.backed_bytes, before.backed_bytes + 4 * SA_PAGE_BYTES);
    assert_int_equal(after.spans_in_use, before.spans_in_use - 1);
    s = take(4, 1);
    sa_page_heap_free(HEAP, s, false);
    assert_non_null(heap->recent);
    assert_true(sa_page_heap_release(HEAP, SIZE_MAX / 2) >= 4 * SA_PAGE_BYTES);
    assert_null(heap->recent);
    assert_int_equal(stats().backed_bytes, 0);
}

static void test_zeroed_and_long_spans_do_not_stay_apart(void **state)
{
    struct sa_span *s[2] = {take(1, 1), take(SA_SPAN_HEAP_RECENT_MAX + 1, 1)};

    (void)state;
    sa_page_heap_free(HEAP, s[0], true);
    assert_null(heap->recent);
    sa_page_heap_free(HEAP, s[1], false);
    assert_null(heap->recent);
    validate();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_of_its_length_gets_the_span_freed_last),
        cmocka_unit_test(test_another_request_finds_the_recent_span_among_the_free_pages),
        cmocka_unit_test(test_alignment_is_looked_at),
        cmocka_unit_test(test_the_recent_span_counts_as_backed_and_is_released),
        cmocka_unit_test(test_zeroed_and_long_spans_do_not_stay_apart),
    };

    test_start_layers();
    heap = HEAP->plain;
    return cmocka_run_group_tests_name("span_heap_recent", tests, NULL, NULL);
}
