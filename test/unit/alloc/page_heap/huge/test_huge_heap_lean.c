/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the hugepage-aware heap keeps while memory is wasted, on a made-up system
 * (test_huge_heap.c): little, and more where the program misses much of what is released.
 */
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_surplus.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/heap_spans.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

/* While classes take blocks from mixed spans, free pages between spans go back at once, as far as
 * hugepages have many of them. Before and after, they stay, up to what is in use. The heap comes
 * from below, which misses much. So two ticks come before the frees; see miss_much. */
static void keep_little(void *unused)
{
    enum { N = 2000, PAGES = 64 };
    struct sa_huge_heap *h = HEAP->huge;

    (void)unused;
    spans_begin();
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
    size_t before = spans_released();

    spans_take(spans, mib * PAGES_MIB, 1);
    spans_give(spans, mib * PAGES_MIB);
    return spans_released() - before;
}

/* A tick, while memory is wasted. */
static void tick_lean(void)
{
    sa_store_relaxed(&sa_page_heap_lean_ns, program.now_ns + TICK_NS + SA_LEAN_NS);
    spans_tick();
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
    spans_begin();
    spans_take(live, LEAN_LIVE * PAGES_MIB, 1);
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
    spans_begin();
    spans_take(live, LEAN_LIVE * PAGES_MIB, 1);
    tick_lean();
    for (int turn = 0; turn < 40; turn++)
        swing_once(SWING);
    swing_often(1, FOUR);
    spans_give(live, LEAN_LIVE * PAGES_MIB);
    assert_in_range(spans_backed(), 0, 1 + 1); /* the least that is kept, not four times as much */
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
        cmocka_unit_test(test_heap_keeps_little_while_much_is_wasted),
        cmocka_unit_test(test_what_is_missed_often_is_kept_while_much_is_wasted),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_heap_lean", tests, NULL, NULL);
}
