/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hugepage-aware heap keeps after falls, on a made-up system (test_huge_heap.c): little
 * after a large one, whatever came before; what it kept before large falls counted, once the
 * program has come back from them again and again; and as much as a program takes back while it
 * goes on in small. Time is the test's: a tick comes every 500 ms of it.
 */
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_surplus.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/heap_spans.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

/* Fills of 512 MiB in spans of a size. Five leave 8 MiB, and a hugepage that is being filled. From
 * then on the heap keeps what was needed again and again. */
static void fills(void *arg)
{
    size_t pages = *(const size_t *)arg, n = 512 * PAGES_MIB / pages;

    spans_begin();
    for (int fill = 1; fill <= 12; fill++) {
        spans_take(spans, n, pages);
        spans_tick();
        spans_give(spans, n);
        if (fill <= 5)
            assert_in_range(spans_backed(), 0, 8 + 2);
        else if (fill == 12)
            assert_in_range(spans_backed(), 48, 48 + 256);
    }
    page_heap_check();
}

static void test_fills_leave_little(void **state)
{
    static const size_t pages[] = {1, 100, 128, 640};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(pages); i++)
        test_child_passes(fills, (void *)&pages[i]);
}

struct swing {
    size_t live, mib, pages; /* MiB in use all the time, and by which the heap swings; of a span */
    uint64_t turn_ns;
};

/* 40 swings. ret_released: the MiB that the frees of each released. */
static void swings(const struct swing *s, size_t ret_released[40])
{
    size_t n = s->mib * PAGES_MIB / s->pages;
    uint64_t tick;

    spans_begin();
    tick = program.now_ns;
    spans_take(live, s->live * PAGES_MIB / s->pages, s->pages);
    for (int turn = 0; turn < 40; turn++) {
        size_t before = spans_released();

        spans_take(spans, n, s->pages);
        spans_give(spans, n);
        ret_released[turn] = spans_released() - before;
        for (program.now_ns += s->turn_ns; tick + TICK_NS <= program.now_ns;)
            sa_page_heap_tick(HEAP, tick += TICK_NS);
    }
    page_heap_check();
}

/* The heap swings by more than what stays in use, once in 0.7 s. From the sixth time on, only what
 * exceeds the memory in use and 48 MiB is released. */
static void large_swings(void *unused)
{
    static const struct swing s = {.live = 100, .mib = 180, .pages = 128, .turn_ns = 700000000};
    size_t gone[40];

    (void)unused;
    swings(&s, gone);
    for (int turn = 1; turn < 5; turn++)
        assert_in_range(gone[turn], s.mib - s.live, s.mib); /* 2 * live - mib stay, and 25 */
    for (int turn = 6; turn < 40; turn++)
        assert_in_range(gone[turn], 0, s.mib - s.live - 48 + 4);
}

/* Swings that are not large, but of which less than 48 MiB would be kept: in the end they are kept,
 * too. */
static void smaller_swings(void *unused)
{
    static const struct swing s = {.live = 40, .mib = 84, .pages = 16, .turn_ns = 900000000};
    size_t gone[40];

    (void)unused;
    swings(&s, gone);
    for (int turn = 8; turn < 40; turn++)
        assert_in_range(gone[turn], 0, s.mib - 48 - s.live / 2);
}

/* Large buffers beside much that is in use: nothing is released when they go, so none is missed.
 * When all is freed, it counts. */
static void temporary_buffers(void *unused)
{
    enum { LIVE = 400, BUFFERS = 100, PAGES = 128 };

    (void)unused;
    spans_begin();
    spans_take(live, LIVE * PAGES_MIB / PAGES, PAGES);
    for (int turn = 0; turn < 12; turn++) {
        spans_take(spans, BUFFERS * PAGES_MIB / PAGES, PAGES);
        spans_give(spans, BUFFERS * PAGES_MIB / PAGES);
        sa_page_heap_tick(HEAP, program.now_ns += 100000000);
    }
    spans_give(live, LIVE * PAGES_MIB / PAGES);
    assert_in_range(spans_backed(), 0, 8 + 2);
    page_heap_check();
}

static void test_falls_that_come_back_count_no_more(void **state)
{
    (void)state;
    test_child_passes(large_swings, NULL);
    test_child_passes(smaller_swings, NULL);
    test_child_passes(temporary_buffers, NULL);
}

/* Behind a large fall, small swings release and find again no more than once. */
static void small_swings(void *unused)
{
    enum { SWING = 300, SMALL = 16, PAGES = 16 };

    (void)unused;
    spans_begin();
    for (int turn = 0; turn < 4; turn++) {
        size_t before;

        spans_take(spans, SWING * PAGES_MIB / PAGES, PAGES);
        spans_tick();
        spans_give(spans, SWING * PAGES_MIB / PAGES);
        before = spans_released();
        for (int i = 0; i < 50; i++) {
            spans_take(spans, SMALL * PAGES_MIB / PAGES, PAGES);
            spans_give(spans, SMALL * PAGES_MIB / PAGES);
        }
        assert_in_range(spans_released() - before, 0, turn ? 2 * SMALL : 50 * SMALL);
        spans_tick();
    }
    page_heap_check();
}

/* What is left of hugepages after frees in random order keeps nothing else from being kept: large
 * spans do not go back at each free. */
static void after_random_frees(void *unused)
{
    enum { N = 300 << (20 - SA_PAGE_SHIFT), PAGES = 192 };
    struct test_random r = {7};

    (void)unused;
    spans_begin();
    for (int turn = 0; turn < 3; turn++) {
        size_t before;

        spans_take(spans, N, 1);
        spans_tick();
        for (size_t i = N - 1; i; i--) {
            size_t k = test_random_below(&r, i + 1);
            struct sa_span *s = spans[k];

            spans[k] = spans[i];
            spans[i] = s;
        }
        for (size_t i = 0; i < N; i++)
            if (i % 97)
                sa_page_heap_free(HEAP, spans[i], false);
        before = spans_released();
        for (int i = 0; i < 500; i++) {
            spans_take(live, 2, PAGES);
            spans_give(live, 2);
        }
        assert_in_range(spans_released() - before, 0, 32);
        spans_tick();
        for (size_t i = 0; i < N; i += 97)
            sa_page_heap_free(HEAP, spans[i], false);
    }
    page_heap_check();
}

static void test_small_demand_is_kept_after_a_fall(void **state)
{
    (void)state;
    test_child_passes(small_swings, NULL);
    test_child_passes(after_random_frees, NULL);
}

/* Spans that shrink are a fall, too. */
static void shrink(void *unused)
{
    enum { N = 8, PAGES = 64 * PAGES_MIB };

    (void)unused;
    spans_begin();
    for (int turn = 0; turn < 3; turn++) {
        spans_take(spans, N, PAGES);
        spans_tick();
        spans_tick();
        for (int i = 0; i < N; i++)
            sa_page_heap_shrink(HEAP, spans[i], 40);
        spans_give(spans, N);
        assert_in_range(spans_backed(), 0, 8 + 2);
    }
    page_heap_check();
}

static void test_a_heap_that_shrinks_in_place_falls(void **state)
{
    (void)state;
    test_child_passes(shrink, NULL);
}

enum { FALL = 200 * PAGES_MIB, STAYS = 100 * PAGES_MIB };

/* After a fall of more than what stays in use, caches are to keep few objects for a second. */
static void seldom(void *unused)
{
    (void)unused;
    spans_begin();
    spans_take(live, STAYS, 1);
    for (int turn = 0; turn < 8; turn++) {
        spans_take(spans, FALL, 1);
        spans_give(spans, FALL / 4);
        assert_int_equal(sa_page_heap_fall, SA_FALL_NONE);
        spans_give(spans + FALL / 4, FALL * 3 / 4);
        assert_int_equal(sa_page_heap_fall, SA_FALL_BEGUN);
        for (int tick = 1; tick <= 40; tick++) {
            spans_tick();
            assert_int_equal(sa_page_heap_fall, tick < 2 ? SA_FALL_BEGUN : SA_FALL_NONE);
        }
    }
}

/* Spans that come and go at its bounds do not end it and begin it again. */
static void at_the_bound(void *unused)
{
    enum { MORE = 8 * PAGES_MIB };

    (void)unused;
    spans_begin();
    spans_take(live, STAYS, 1);
    spans_take(spans, FALL, 1);
    for (size_t given = 0; sa_page_heap_fall == SA_FALL_NONE && given < FALL; given++)
        spans_give(spans + given, 1);
    assert_int_equal(sa_page_heap_fall, SA_FALL_BEGUN);
    sa_page_heap_fall = SA_FALL_ANSWERED;
    for (int i = 0; i < 10; i++) {
        spans_take(spans, MORE, 1);
        spans_give(spans, MORE);
        assert_int_equal(sa_page_heap_fall, SA_FALL_ANSWERED);
    }
}

/* Gives one span after the other until caches are told. Returns how many. */
static size_t until_told(struct sa_span **of, size_t most)
{
    size_t given = 0;

    for (sa_page_heap_fall = SA_FALL_ANSWERED; sa_page_heap_fall != SA_FALL_BEGUN; given++) {
        assert_in_range(given, 0, most - 1);
        spans_give(of + given, 1);
    }
    return given;
}

/* They are told again each time that what is in use falls to half, and from 32 MiB down to 4 MiB by
 * 1/8. What comes back meanwhile is not freed twice. */
static void in_steps(void *whole)
{
    enum { MORE = 7 * PAGES_MIB };
    size_t all = *(const size_t *)whole, first = all - sa_max(all / 2, 88 * PAGES_MIB), left, next;
    size_t given = 0;

    spans_begin();
    spans_take(spans, all, 1);
    while (sa_page_heap_fall == SA_FALL_NONE)
        spans_give(spans + given++, 1);
    assert_int_equal(given, all - first);
    for (left = first; left / 8 * 7 >= 4 * PAGES_MIB; left = next) {
        next = sa_max(left / 2, sa_min(left, 32 * PAGES_MIB) / 8 * 7);
        assert_int_equal(until_told(spans + given, left - next), left - next);
        given += left - next;
        if (left == first) {
            sa_page_heap_fall = SA_FALL_ANSWERED;
            spans_take(live, MORE, 1);
            spans_give(live, MORE);
            assert_int_equal(sa_page_heap_fall, SA_FALL_ANSWERED);
        }
    }
    sa_page_heap_fall = SA_FALL_ANSWERED;
    spans_give(spans + given, all - given);
    assert_int_equal(sa_page_heap_fall, SA_FALL_ANSWERED);
}

/* That ends when the program comes back. If it has done so again and again, it does not begin. So
 * it is if all of the memory was kept (less than STAYS), and nothing was missed. */
static void often(void *fall)
{
    size_t n = *(const size_t *)fall;

    spans_begin();
    spans_take(live, STAYS, 1);
    for (int turn = 0; turn < 8; turn++) {
        spans_take(spans, n, 1);
        spans_give(spans, 1);
        spans[0] = NULL;
        spans_tick();
        spans_tick();
        assert_int_equal(sa_page_heap_fall, SA_FALL_NONE);
        spans_give(spans, n);
        assert_int_equal(sa_page_heap_fall, turn < 5 ? SA_FALL_BEGUN : SA_FALL_NONE);
    }
}

static void test_caches_are_told_of_falls(void **state)
{
    static const size_t falls[] = {STAYS + 4 * PAGES_MIB, FALL};
    static const size_t wholes[] = {512 * PAGES_MIB, 121 * PAGES_MIB, 132 * PAGES_MIB};

    (void)state;
    test_child_passes(seldom, NULL);
    test_child_passes(at_the_bound, NULL);
    for (size_t i = 0; i < TEST_COUNT(wholes); i++)
        test_child_passes(in_steps, (void *)&wholes[i]);
    for (size_t i = 0; i < TEST_COUNT(falls); i++)
        test_child_passes(often, (void *)&falls[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills_leave_little),
        cmocka_unit_test(test_falls_that_come_back_count_no_more),
        cmocka_unit_test(test_small_demand_is_kept_after_a_fall),
        cmocka_unit_test(test_a_heap_that_shrinks_in_place_falls),
        cmocka_unit_test(test_caches_are_told_of_falls),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_heap_surplus", tests, NULL, NULL);
}
