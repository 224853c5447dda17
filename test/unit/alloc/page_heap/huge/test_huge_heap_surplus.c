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
#include "test/support/huge_program.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

#define HEAP      (&sa_page_heap_ordinary)
#define MIB       (1ul << 20)
#define PAGES_MIB (MIB >> SA_PAGE_SHIFT)
#define TICK_NS   500000000ull

enum { SPANS = 1 << 17 };

static struct sa_span *spans[SPANS], *live[SPANS];

static void take(struct sa_span **of, size_t n, size_t pages)
{
    for (size_t i = 0; i < n; i++)
        assert_non_null(of[i] = sa_page_heap_alloc(HEAP, pages, 1, SA_PAGES_ANY));
}

static void give(struct sa_span **of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (of[i])
            sa_page_heap_free(HEAP, of[i], false);
}

static size_t backed(void)
{
    struct sa_huge_heap *h = HEAP->huge;
    size_t pages;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    pages = sa_huge_heap_backed(h) + (h->recent ? h->recent->pages : 0);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return pages / PAGES_MIB;
}

static size_t released(void)
{
    struct sa_page_heap_stats stats;

    sa_page_heap_stats(HEAP, &stats);
    return stats.released_ever_bytes / MIB;
}

static void begin(void)
{
    program_begin("always [madvise] never\n", 1);
    sa_page_heap_tick(HEAP, program.now_ns);
}

/* Fills of 512 MiB in spans of a size. Five leave 8 MiB, and a hugepage that is being filled. From
 * then on the heap keeps what was needed again and again. */
static void fills(void *arg)
{
    size_t pages = *(const size_t *)arg, n = 512 * PAGES_MIB / pages;

    begin();
    for (int fill = 1; fill <= 12; fill++) {
        take(spans, n, pages);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        give(spans, n);
        if (fill <= 5)
            assert_in_range(backed(), 0, 8 + 2);
        else if (fill == 12)
            assert_in_range(backed(), 48, 48 + 256);
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

    begin();
    tick = program.now_ns;
    take(live, s->live * PAGES_MIB / s->pages, s->pages);
    for (int turn = 0; turn < 40; turn++) {
        size_t before = released();

        take(spans, n, s->pages);
        give(spans, n);
        ret_released[turn] = released() - before;
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
    begin();
    take(live, LIVE * PAGES_MIB / PAGES, PAGES);
    for (int turn = 0; turn < 12; turn++) {
        take(spans, BUFFERS * PAGES_MIB / PAGES, PAGES);
        give(spans, BUFFERS * PAGES_MIB / PAGES);
        sa_page_heap_tick(HEAP, program.now_ns += 100000000);
    }
    give(live, LIVE * PAGES_MIB / PAGES);
    assert_in_range(backed(), 0, 8 + 2);
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
    begin();
    for (int turn = 0; turn < 4; turn++) {
        size_t before;

        take(spans, SWING * PAGES_MIB / PAGES, PAGES);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        give(spans, SWING * PAGES_MIB / PAGES);
        before = released();
        for (int i = 0; i < 50; i++) {
            take(spans, SMALL * PAGES_MIB / PAGES, PAGES);
            give(spans, SMALL * PAGES_MIB / PAGES);
        }
        assert_in_range(released() - before, 0, turn ? 2 * SMALL : 50 * SMALL);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
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
    begin();
    for (int turn = 0; turn < 3; turn++) {
        size_t before;

        take(spans, N, 1);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        for (size_t i = N - 1; i; i--) {
            size_t k = test_random_below(&r, i + 1);
            struct sa_span *s = spans[k];

            spans[k] = spans[i];
            spans[i] = s;
        }
        for (size_t i = 0; i < N; i++)
            if (i % 97)
                sa_page_heap_free(HEAP, spans[i], false);
        before = released();
        for (int i = 0; i < 500; i++) {
            take(live, 2, PAGES);
            give(live, 2);
        }
        assert_in_range(released() - before, 0, 32);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
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
    begin();
    for (int turn = 0; turn < 3; turn++) {
        take(spans, N, PAGES);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        for (int i = 0; i < N; i++)
            sa_page_heap_shrink(HEAP, spans[i], 40);
        give(spans, N);
        assert_in_range(backed(), 0, 8 + 2);
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
    begin();
    take(live, STAYS, 1);
    for (int turn = 0; turn < 8; turn++) {
        take(spans, FALL, 1);
        give(spans, FALL / 4);
        assert_int_equal(sa_page_heap_fall, SA_FALL_NONE);
        give(spans + FALL / 4, FALL * 3 / 4);
        assert_int_equal(sa_page_heap_fall, SA_FALL_BEGUN);
        for (int tick = 1; tick <= 40; tick++) {
            sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
            assert_int_equal(sa_page_heap_fall, tick < 2 ? SA_FALL_BEGUN : SA_FALL_NONE);
        }
    }
}

/* Spans that come and go at its bounds do not end it and begin it again. */
static void at_the_bound(void *unused)
{
    enum { MORE = 8 * PAGES_MIB };

    (void)unused;
    begin();
    take(live, STAYS, 1);
    take(spans, FALL, 1);
    for (size_t given = 0; sa_page_heap_fall == SA_FALL_NONE && given < FALL; given++)
        give(spans + given, 1);
    assert_int_equal(sa_page_heap_fall, SA_FALL_BEGUN);
    sa_page_heap_fall = SA_FALL_ANSWERED;
    for (int i = 0; i < 10; i++) {
        take(spans, MORE, 1);
        give(spans, MORE);
        assert_int_equal(sa_page_heap_fall, SA_FALL_ANSWERED);
    }
}

/* That ends when the program comes back. If it has done so again and again, it does not begin. So
 * it is if all of the memory was kept (less than STAYS), and nothing was missed. */
static void often(void *fall)
{
    size_t n = *(const size_t *)fall;

    begin();
    take(live, STAYS, 1);
    for (int turn = 0; turn < 8; turn++) {
        take(spans, n, 1);
        give(spans, 1);
        spans[0] = NULL;
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
        assert_int_equal(sa_page_heap_fall, SA_FALL_NONE);
        give(spans, n);
        assert_int_equal(sa_page_heap_fall, turn < 5 ? SA_FALL_BEGUN : SA_FALL_NONE);
    }
}

static void test_caches_are_told_of_falls(void **state)
{
    static const size_t falls[] = {STAYS + 4 * PAGES_MIB, FALL};

    (void)state;
    test_child_passes(seldom, NULL);
    test_child_passes(at_the_bound, NULL);
    for (size_t i = 0; i < TEST_COUNT(falls); i++)
        test_child_passes(often, (void *)&falls[i]);
}

/* While classes take blocks from mixed spans, free pages between spans go back at once, as far as
 * hugepages have many of them. Before and after, they stay, up to what is in use. The heap comes
 * from below, which misses much. So two ticks come before the frees; see miss_much. */
static void keep_little(void *unused)
{
    enum { N = 2000, PAGES = 64 };
    struct sa_huge_heap *h = HEAP->huge;

    (void)unused;
    begin();
    for (int turn = 0; turn < 3; turn++) {
        size_t pages;

        sa_store_relaxed(&sa_page_heap_lean_ns, turn == 1 ? program.now_ns + SA_LEAN_NS : 0);
        sa_page_heap_tick(HEAP, program.now_ns);
        for (int i = 0; i < N; i++)
            if (!spans[i])
                spans[i] = sa_page_heap_alloc(HEAP, PAGES, 1, SA_PAGES_ANY);
        for (int tick = 0; tick < 2; tick++)
            sa_page_heap_tick(HEAP, program.now_ns += TICK_NS / 4);
        for (int i = 0; i < N; i++)
            if (i % 5) {
                sa_page_heap_free(HEAP, spans[i], false);
                spans[i] = NULL;
            }
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        pages = sa_huge_heap_backed(h);
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        if (turn == 1)
            assert_in_range(pages, 0, h->in_use_pages / 32 + SA_HUGE_PAGES);
        else
            assert_in_range(pages, h->in_use_pages / 4, SIZE_MAX);
    }
}

static void test_heap_keeps_little_while_much_is_wasted(void **state)
{
    (void)state;
    test_child_passes(keep_little, NULL);
}

/* A swing of so many MiB. Returns what its frees released. */
static size_t swing_once(size_t mib)
{
    size_t before = released();

    take(spans, mib * PAGES_MIB, 1);
    give(spans, mib * PAGES_MIB);
    return released() - before;
}

/* A tick, while memory is wasted. */
static void tick_lean(void)
{
    sa_store_relaxed(&sa_page_heap_lean_ns, program.now_ns + TICK_NS + SA_LEAN_NS);
    sa_page_heap_tick(HEAP, program.now_ns += TICK_NS);
}

/* What the frees of swings release while 1/48 is kept of 192 MiB, twice and four times as much. A
 * swing needs that back: at the first after a tick, which forgets a quarter of it, 3/4. */
enum { SWING = 24, LEAN_LIVE = 192, ONE = SWING - 4, TWO = SWING - 8, FOUR = SWING - 16 };

static void swing_often(int times, size_t expected)
{
    for (int turn = 0; turn < times; turn++)
        assert_in_range(swing_once(SWING), expected - 1, expected + 1);
}

/*
 * While memory is wasted, little is kept, and a swing misses the rest. Where more than 128 MiB are
 * missed between two ticks, twice as much is kept, and from 256 MiB on four times as much. A tick
 * before which 16 MiB or more were missed leaves it so.
 */
static void miss_much(void *unused)
{
    (void)unused;
    begin();
    take(live, LEAN_LIVE * PAGES_MIB, 1);
    for (int turn = 0; turn < 40; turn++) /* before memory is wasted, they do not count */
        swing_once(SWING);
    tick_lean();
    swing_once(SWING);
    for (int turn = 0; turn < 20; turn++) { /* 35 MiB between two ticks */
        tick_lean();
        swing_often(2, ONE);
    }
    tick_lean();
    swing_often(6, ONE);  /* 15 and 5 times 20 MiB are missed: 115 */
    swing_often(8, TWO);  /* 20 and 7 times 16: 247 */
    swing_often(9, FOUR); /* 16 and 8 times 8 */
    for (int turn = 0; turn < 20; turn++) {
        tick_lean();
        swing_often(3, FOUR); /* 6, 8, 8 */
    }
    tick_lean();
    swing_often(2, FOUR); /* 6, 8 */
    tick_lean();
    swing_often(1, TWO); /* 6 */
    tick_lean();
    swing_often(1, ONE);
    page_heap_check();
}

/* So does a fall that frees most: no tick may come any more. */
static void miss_and_fall(void *unused)
{
    (void)unused;
    begin();
    take(live, LEAN_LIVE * PAGES_MIB, 1);
    tick_lean();
    for (int turn = 0; turn < 40; turn++)
        swing_once(SWING);
    swing_often(1, FOUR);
    give(live, LEAN_LIVE * PAGES_MIB);
    assert_in_range(backed(), 0, 1 + 1); /* the least that is kept, not four times as much */
}

static void test_what_is_missed_often_is_kept_while_much_is_wasted(void **state)
{
    (void)state;
    test_child_passes(miss_much, NULL);
    test_child_passes(miss_and_fall, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills_leave_little),
        cmocka_unit_test(test_falls_that_come_back_count_no_more),
        cmocka_unit_test(test_small_demand_is_kept_after_a_fall),
        cmocka_unit_test(test_a_heap_that_shrinks_in_place_falls),
        cmocka_unit_test(test_caches_are_told_of_falls),
        cmocka_unit_test(test_heap_keeps_little_while_much_is_wasted),
        cmocka_unit_test(test_what_is_missed_often_is_kept_while_much_is_wasted),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_heap_surplus", tests, NULL, NULL);
}
