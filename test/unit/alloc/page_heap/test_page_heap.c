/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page heap against a model, with all invariants checked from outside: random operations,
 * alignment, resizing in place, moved blocks, and how memory goes back. Every span is filled with
 * a byte of its own. A page that was handed out twice, or is not zero as claimed, thus shows.
 */
#include "alloc/page_heap/page_heap.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/page_heap_walk.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>

#define HEAP  (&sa_page_heap_ordinary)
#define SPANS 200
#define MIB   (1ul << 20)

static struct sa_span *spans[SPANS + 1];
static unsigned char mark[SPANS + 1];
static unsigned count;
static uint64_t now_ns;

static size_t kernel_step(void)
{
    return sa_max(sa_vm.page_bytes >> SA_PAGE_SHIFT, 1);
}

static struct sa_page_heap_stats stats(void)
{
    struct sa_page_heap_stats s;

    sa_page_heap_stats(HEAP, &s);
    return s;
}

/* Marks the first and the last word of every kernel page: enough to see any page change hands. */
static void fill(unsigned i)
{
    for (uintptr_t at = spans[i]->start; at < sa_span_end(spans[i]); at += sa_vm.page_bytes) {
        memset((void *)at, mark[i], 8);
        memset((void *)(at + sa_vm.page_bytes - 8), mark[i], 8);
    }
}

static void assert_filled(unsigned i, size_t bytes)
{
    for (uintptr_t at = spans[i]->start; at < spans[i]->start + bytes; at++) {
        if (at % sa_vm.page_bytes == 8)
            at += sa_vm.page_bytes - 16;
        if (*(unsigned char *)at != mark[i])
            fail_msg("page of span %u changed at %p", i, (void *)at);
    }
}

static void assert_new(const struct sa_span *s, size_t pages, size_t align)
{
    assert_int_equal(s->state, SA_SPAN_LARGE);
    assert_int_equal(s->cls, 0);
    assert_int_equal(s->moved, 0);
    assert_in_range(s->pages, pages, sa_align_up(pages, kernel_step()));
    assert_int_equal(s->start % (align << SA_PAGE_SHIFT), 0);
    assert_int_equal(s->start % sa_vm.page_bytes, 0);
    assert_ptr_equal(sa_pagemap_find(s->start), s);
    assert_ptr_equal(sa_pagemap_find(sa_span_end(s) - 1), s);
    if (s->zeroed)
        assert_true(page_heap_is_zero(s));
}

static bool take(size_t pages, size_t align)
{
    struct sa_span *s;

    if (count == SPANS)
        return false;
    s = sa_page_heap_alloc(HEAP, pages, align, SA_PAGES_ANY);
    if (!s)
        return false;
    assert_new(s, pages, align);
    spans[count] = s;
    mark[count] = (unsigned char)(1 + test_random_below(&(struct test_random){s->start}, 255));
    fill(count++);
    return true;
}

static void drop_from_model(unsigned i)
{
    spans[i] = spans[--count];
    mark[i] = mark[count];
}

static void give(unsigned i)
{
    struct sa_span *s = spans[i];

    assert_filled(i, sa_span_bytes(s));
    drop_from_model(i);
    sa_page_heap_free(HEAP, s, false);
}

static void give_all(void)
{
    while (count)
        give(count - 1);
}

static void random_extend(struct test_random *r, unsigned i)
{
    size_t old = spans[i]->pages, pages = old + test_random_size(r, 6);

    if (sa_page_heap_extend(HEAP, spans[i], pages)) {
        assert_in_range(spans[i]->pages, pages, sa_align_up(pages, kernel_step()));
        assert_filled(i, old << SA_PAGE_SHIFT);
        fill(i);
    } else {
        assert_int_equal(spans[i]->pages, old);
    }
}

static void random_shrink(struct test_random *r, unsigned i)
{
    size_t pages = 1 + test_random_below(r, spans[i]->pages);

    sa_page_heap_shrink(HEAP, spans[i], pages);
    assert_int_equal(spans[i]->pages, sa_align_up(pages, kernel_step()));
    assert_filled(i, sa_span_bytes(spans[i]));
}

/* Moves a span's pages to a new one, as a growing block does. */
static void random_move(unsigned i)
{
    struct sa_span *old = spans[i], *s = sa_page_heap_alloc(HEAP, old->pages, 1, SA_PAGES_ANY);

    if (!s)
        return;
    if (!sa_vm_move((void *)old->start, (void *)s->start, sa_span_bytes(old))) {
        sa_page_heap_free(HEAP, s, s->zeroed);
        return;
    }
    s->moved = 1;
    sa_page_heap_free(HEAP, old, true);
    spans[i] = s;
    assert_filled(i, sa_span_bytes(s));
}

static void random_step(struct test_random *r)
{
    size_t max = stats().backed_bytes;
    unsigned i = count ? (unsigned)test_random_below(r, count) : 0;

    switch (test_random_below(r, 10)) {
    case 0:
    case 1:
    case 2:
        take(test_random_size(r, 8), 1);
        break;
    case 3:
        take(test_random_size(r, 6), (size_t)1 << test_random_below(r, 9));
        break;
    case 4:
    case 5:
        if (count)
            give(i);
        break;
    case 6:
        if (count)
            random_extend(r, i);
        break;
    case 7:
        if (count)
            random_shrink(r, i);
        break;
    case 8:
        if (count && spans[i]->pages >= 8 && test_random_below(r, 4) == 0)
            random_move(i);
        break;
    default:
        if (test_random_below(r, 2)) {
            size_t want = test_random_below(r, 4 * MIB), got = sa_page_heap_release(HEAP, want);

            assert_true(got >= sa_min(want, max) || got == max);
        } else {
            now_ns += test_random_below(r, 3 * SA_RELEASE_NS);
            sa_page_heap_tick(HEAP, now_ns);
        }
    }
}

static void test_page_heap_random_operations_keep_invariants(void **state)
{
    struct test_random r = {0x5a0001};

    (void)state;
    for (int step = 0; step < 20000; step++) {
        random_step(&r);
        if (step % 8 == 0)
            page_heap_check();
    }
    give_all();
    page_heap_check();
    assert_int_equal(stats().in_use_bytes, 0);
    assert_int_equal(stats().spans_in_use, 0);
}

static void test_page_heap_aligns(void **state)
{
    (void)state;
    take(1, 1);
    for (unsigned log = 0; log <= 17; log++) { /* up to 1 GiB */
        assert_true(take(3, (size_t)1 << log));
        assert_true(take(1, (size_t)1 << log));
        page_heap_check();
    }
    give_all();
}

static void test_page_heap_refuses_impossible_requests(void **state)
{
    (void)state;
    assert_null(sa_page_heap_alloc(HEAP, SIZE_MAX, 1, SA_PAGES_ANY));
    assert_null(sa_page_heap_alloc(HEAP, UINT32_MAX, 1, SA_PAGES_ANY));
    assert_null(sa_page_heap_alloc(HEAP, (size_t)1 << 40, 1, SA_PAGES_ANY));
    assert_null(sa_page_heap_alloc(HEAP, 1, (size_t)1 << 49, SA_PAGES_ANY));
    take(1, 1);
    page_heap_check();
    give_all();
}

/*
 * Cuts one mapping in pieces and frees them in every order of three neighbours: what remains is one
 * free span, and the statistics agree at each step. In a child, whose heap is one mapping.
 */
static void merge_in_order(void *arg)
{
    const int *order = arg;
    size_t third = (MIB >> SA_PAGE_SHIFT) / 4;
    struct sa_span *s;

    for (int i = 0; i < 3; i++)
        assert_true(take(third, 1));
    assert_int_equal(spans[1]->start, sa_span_end(spans[0]));
    assert_int_equal(spans[2]->start, sa_span_end(spans[1]));
    for (int i = 0; i < 3; i++) {
        sa_page_heap_free(HEAP, spans[order[i]], false);
        page_heap_check();
    }
    assert_int_equal(page_heap_ranges(), 1);
    s = sa_page_heap_alloc(HEAP, 3 * third, 1, SA_PAGES_ANY);
    assert_false(s->zeroed); /* the same memory again */
    page_heap_check();
    sa_page_heap_free(HEAP, s, false);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    page_heap_check();
    assert_int_equal(stats().released_bytes, stats().mapped_bytes);
    s = sa_page_heap_alloc(HEAP, stats().mapped_bytes >> SA_PAGE_SHIFT, 1, SA_PAGES_ANY);
    assert_non_null(s);
    assert_int_equal(stats().in_use_bytes, stats().mapped_bytes);
    assert_true(s->zeroed && page_heap_is_zero(s));
}

static void test_page_heap_merges_neighbours_in_any_order(void **state)
{
    static int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(orders); i++)
        test_child_passes(merge_in_order, orders[i]);
}

/*
 * The fast path knows one window only. Whatever a program asks for in between (here blocks with an
 * alignment of their own), ordinary growth stays in it.
 */
static void grow_after_aligned(void *unused)
{
    (void)unused;
    assert_true(take(1, 1));
    if (spans[0]->start >> SA_HOME_SHIFT != SA_HOME_START >> SA_HOME_SHIFT)
        return; /* something else is there: under sanitizers, their shadow memory */
    for (int i = 0; i < 50; i++) {
        assert_true(take(64, 1024)); /* aligned to 8 MiB */
        assert_true(take(2 * MIB >> SA_PAGE_SHIFT, 1));
        assert_int_equal(spans[count - 1]->start >> SA_HOME_SHIFT,
                         spans[0]->start >> SA_HOME_SHIFT);
    }
    page_heap_check();
}

static void test_page_heap_stays_in_its_window(void **state)
{
    (void)state;
    test_child_passes(grow_after_aligned, NULL);
}

static void test_page_heap_extends_only_into_free_neighbours(void **state)
{
    struct sa_span *a, *b;
    size_t step = kernel_step();

    (void)state;
    a = sa_page_heap_alloc(HEAP, 64 * step, 1, SA_PAGES_ANY);
    sa_page_heap_shrink(HEAP, a, 16 * step); /* 48 free pages follow */
    assert_true(sa_page_heap_is_free(HEAP, sa_span_end(a)));
    assert_false(sa_page_heap_is_free(HEAP, sa_span_end(a) - 1));
    assert_true(sa_page_heap_extend(HEAP, a, 64 * step));
    assert_int_equal(a->pages, 64 * step);
    assert_false(sa_page_heap_extend(HEAP, a, (size_t)1 << 31));
    assert_false(sa_page_heap_extend(HEAP, a, (size_t)1 << 40));
    assert_int_equal(a->pages, 64 * step);
    sa_page_heap_shrink(HEAP, a, 16 * step);
    b = sa_page_heap_alloc(HEAP, 48 * step, 1, SA_PAGES_ANY);
    if (b->start == sa_span_end(a)) /* the same place: now taken */
        assert_false(sa_page_heap_extend(HEAP, a, 17 * step));
    sa_page_heap_free(HEAP, a, false);
    sa_page_heap_free(HEAP, b, false);
}

/* Where little is in use, a surplus of more than 8 MiB goes back at once, without refaults. */
static void test_page_heap_gives_excess_back_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        sa_page_heap_tick(HEAP, now_ns += SA_RELEASE_NS);
    for (int i = 0; i < 100; i++)
        assert_true(take(MIB >> SA_PAGE_SHIFT, 1));
    give_all();
    assert_in_range(stats().backed_bytes, 0, 8 * MIB);
    assert_true(stats().released_bytes >= 92 * MIB);
}

/* A span of twice so many MiB, so that so many may be free. Without memory. */
static struct sa_span *hold(size_t mibs)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, 2 * mibs * MIB >> SA_PAGE_SHIFT, 1, SA_PAGES_ZERO);

    assert_non_null(s);
    return s;
}

/* What nobody needed for SA_RELEASE_NS goes back in a tick, down to 1 MiB. */
static void test_page_heap_ticks_give_idle_memory_back(void **state)
{
    struct sa_span *held = hold(50);

    (void)state;
    for (int i = 0; i < 32; i++)
        assert_true(take(MIB >> SA_PAGE_SHIFT, 1));
    give_all();
    assert_true(stats().backed_bytes >= 32 * MIB);
    sa_page_heap_tick(HEAP, now_ns += SA_RELEASE_NS); /* notes what is free from here on */
    assert_false(sa_page_heap_tick(HEAP, now_ns += SA_RELEASE_NS));
    assert_in_range(stats().backed_bytes, 0, MIB);
    sa_page_heap_free(HEAP, held, true);
}

/* Memory that is used again and again between two ticks stays. */
static void test_page_heap_ticks_leave_busy_memory(void **state)
{
    struct sa_span *held = hold(50);

    (void)state;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 16; i++)
            assert_true(take(MIB >> SA_PAGE_SHIFT, 1));
        give_all();
        sa_page_heap_tick(HEAP, now_ns += SA_RELEASE_NS);
        assert_true(stats().backed_bytes >= 14 * MIB); /* all but what a first tick may find idle */
    }
    sa_page_heap_free(HEAP, held, true);
}

static void test_page_heap_release_gives_what_is_asked(void **state)
{
    struct sa_span *held = hold(50);
    size_t backed, given;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(take(MIB >> SA_PAGE_SHIFT, 1));
    give_all();
    backed = stats().backed_bytes;
    assert_true(backed >= 20 * MIB);
    assert_int_equal(sa_page_heap_release(HEAP, 0), 0);
    given = sa_page_heap_release(HEAP, 5 * MIB); /* whole hugepages */
    assert_in_range(given, 5 * MIB, 6 * MIB);
    assert_int_equal(stats().backed_bytes, backed - given);
    assert_in_range(sa_page_heap_release(HEAP, 1), 1, 2 * MIB);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    assert_int_equal(stats().backed_bytes, 0);
    assert_int_equal(sa_page_heap_release(HEAP, MIB), 0);
    sa_page_heap_free(HEAP, held, true);
}

/*
 * Freed memory is reused before new memory is mapped, also at another size. In a child, whose heap
 * begins as one range.
 */
static void reuse(void *unused)
{
    size_t mapped;

    (void)unused;
    for (int i = 0; i < 32; i++)
        assert_true(take(128, 1));
    give_all();
    mapped = stats().mapped_bytes;
    for (int round = 0; round < 50; round++) {
        size_t pages = page_heap_ranges() == 1 && round % 2 ? 256 : 128;

        for (size_t i = 0; i < 32 * 128 / pages; i++)
            assert_true(take(pages, 1));
        give_all();
    }
    assert_int_equal(stats().mapped_bytes, mapped);
}

static void test_page_heap_reuses_before_it_grows(void **state)
{
    (void)state;
    test_child_passes(reuse, NULL);
}

/* Unmapping leaves holes: at the end of its window the sampled heap begins again from the start. */
static void wear_out(void *arg)
{
    struct sa_page_heap *h = &sa_page_heap_sampled;
    struct sa_span *kept = sa_page_heap_alloc(h, 1, 1, SA_PAGES_ANY);
    size_t pages = SA_HOME_PAGES / 1024;

    (void)arg;
    assert_non_null(kept);
    for (size_t n = 0; n < 3 * SA_HOME_PAGES; n += pages) {
        struct sa_span *s = sa_page_heap_alloc(h, pages, 1, SA_PAGES_ANY);

        assert_non_null(s);
        assert_true(sa_page_heap_sampled_address(s->start));
        assert_true(sa_page_heap_sampled_address(sa_span_end(s) - 1));
        sa_page_heap_free(h, s, true);
        sa_page_heap_unmap(h, PTRDIFF_MAX);
    }
    sa_page_heap_free(h, kept, false);
}

static void test_page_heap_of_samples_wears_no_addresses_out(void **state)
{
    (void)state;
    test_child_passes(wear_out, NULL);
}

/* A request of 64 GiB or more has a mapping of its own; what is freed is cut at the windows. */
static void test_page_heap_serves_more_than_a_window(void **state)
{
    struct sa_span *s;

    (void)state;
    take(1, 1);
    s = sa_page_heap_alloc(HEAP, SA_HOME_PAGES + 5 * kernel_step(), 1, SA_PAGES_ANY);
    if (!s)
        TEST_SKIP("no address space for more than 64 GiB, or no overcommit");
    assert_true(s->zeroed);
    memset((void *)s->start, 1, 100);
    memset((void *)(sa_span_end(s) - 100), 1, 100);
    spans[count++] = s;
    page_heap_check();
    count--;
    sa_page_heap_free(HEAP, s, false);
    page_heap_check();
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    page_heap_check();
    give_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First those that fork, while nothing is mapped. */
        cmocka_unit_test(test_page_heap_merges_neighbours_in_any_order),
        cmocka_unit_test(test_page_heap_stays_in_its_window),
        cmocka_unit_test(test_page_heap_reuses_before_it_grows),
        cmocka_unit_test(test_page_heap_of_samples_wears_no_addresses_out),
        cmocka_unit_test(test_page_heap_random_operations_keep_invariants),
        cmocka_unit_test(test_page_heap_aligns),
        cmocka_unit_test(test_page_heap_refuses_impossible_requests),
        cmocka_unit_test(test_page_heap_extends_only_into_free_neighbours),
        cmocka_unit_test(test_page_heap_gives_excess_back_at_once),
        cmocka_unit_test(test_page_heap_ticks_give_idle_memory_back),
        cmocka_unit_test(test_page_heap_ticks_leave_busy_memory),
        cmocka_unit_test(test_page_heap_release_gives_what_is_asked),
        cmocka_unit_test(test_page_heap_serves_more_than_a_window),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("page_heap", tests, NULL, NULL);
}
