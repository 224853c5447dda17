/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large spans on hugepages that are partly cached and partly without memory, and what is kept for a
 * program that frees all it has again and again; on a system that exists only here.
 */
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/huge_program.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

#include <string.h>

#define HEAP (&sa_page_heap_ordinary)
#define MIB  (1ul << 20)
#define MS   1000000ull

static struct sa_span *take(size_t pages)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, pages, 1, SA_PAGES_ANY);

    assert_non_null(s);
    return s;
}

static size_t hugepage_of(const struct sa_span *s)
{
    return s->start >> SA_HUGE_SHIFT;
}

/* What was freed last goes to its place. */
static void flush(void)
{
    sa_lock_acquire(&HEAP->huge->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(HEAP->huge);
    sa_lock_release(&HEAP->huge->lock, SA_RANK_PAGE_HEAP);
}

/* Hugepages side by side, a letter for each: 'c' cached, 'r' without memory, 'u' in use, as those
 * around them. The first. */
static size_t lay_out(const char *plan)
{
    size_t n = strlen(plan), count = 0, first;
    struct sa_span *parts[32];
    char kinds[32];

    program_begin("always madvise [never]\n", 1);
    take(50 * SA_HUGE_PAGES); /* so that half of it may be free */
    parts[0] = take((n + 2) * SA_HUGE_PAGES);
    first = hugepage_of(parts[0]) + 1;
    sa_page_heap_free(HEAP, parts[0], true);
    take(SA_HUGE_PAGES);
    for (size_t i = 0, length; i < n; i += length) {
        length = strspn(plan + i, (char[]){plan[i], 0});
        kinds[count] = plan[i];
        parts[count] = take(length * SA_HUGE_PAGES);
        assert_int_equal(hugepage_of(parts[count++]), first + i);
    }
    take(SA_HUGE_PAGES);
    for (size_t i = 0; i < count; i++)
        if (kinds[i] != 'u')
            sa_page_heap_free(HEAP, parts[i], kinds[i] == 'r');
    flush();
    return first;
}

/* Where a span of n hugepages is placed, from the first of those laid out; ELSEWHERE: not among
 * them. */
struct placing {
    const char *plan;
    size_t n;
    long at;
};

#define ELSEWHERE (-1)

static void place(void *arg)
{
    const struct placing *p = arg;
    size_t first = lay_out(p->plan), cached = 0, taken = 0, at;
    struct sa_huge_heap *h = HEAP->huge;
    struct sa_span *s;

    for (const char *c = p->plan; *c; c++)
        cached += *c == 'c';
    assert_int_equal(h->cache.map.hugepages, cached);
    s = take(p->n * SA_HUGE_PAGES);
    at = hugepage_of(s);
    if (p->at == ELSEWHERE) {
        assert_true(at + p->n <= first || at >= first + strlen(p->plan));
    } else {
        assert_int_equal(at - first, p->at);
        for (size_t i = 0; i < p->n; i++)
            taken += p->plan[(size_t)p->at + i] == 'c';
        assert_false(s->zeroed);
    }
    assert_int_equal(h->cache.map.hugepages, cached - taken);
    page_heap_check();
    sa_page_heap_free(HEAP, s, false);
    flush();
    page_heap_check();
}

static void test_coalesce_uses_what_is_cached(void **state)
{
    static struct placing placings[] = {
        {"ccccrrrr", 6, 0},       {"rrrrcccc", 6, 2},
        {"cccrrccc", 8, 0},       {"rcccrucccc", 4, 6}, /* in one piece */
        {"crurccccr", 5, 4},                            /* the place with most of them cached */
        {"cccrrr", 6, ELSEWHERE},                       /* no more than half are */
        {"ccuccu", 4, ELSEWHERE},                       /* not side by side */
        {"ccuccrr", 3, 3},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(placings); i++)
        test_child_passes(place, &placings[i]);
}

/* Of a span that ends within a hugepage, the rest of that is the filler's: with memory only if the
 * hugepage was cached. */
static void place_tail(void *arg)
{
    const char *plan = arg;
    size_t first = lay_out(plan), rest = 10;
    struct sa_huge_heap *h = HEAP->huge;
    struct sa_span *s;

    assert_int_equal(sa_huge_filler_backed(&h->filler), 0);
    s = take(strlen(plan) * SA_HUGE_PAGES - rest);
    assert_int_equal(hugepage_of(s), first);
    assert_int_equal(sa_huge_filler_backed(&h->filler), plan[strlen(plan) - 1] == 'c' ? rest : 0);
    page_heap_check();
}

static void test_coalesce_knows_what_its_tail_has(void **state)
{
    (void)state;
    test_child_passes(place_tail, "cccrr");
    test_child_passes(place_tail, "crrcc");
}

/* A span grows into what is behind it, wherever that has been. */
static void extend(void *unused)
{
    size_t first = lay_out("uuccrcr");
    struct sa_span *s = sa_pagemap_span(first << SA_HUGE_SHIFT);
    struct sa_huge_heap *h = HEAP->huge;

    (void)unused;
    assert_true(sa_page_heap_extend(HEAP, s, 6 * SA_HUGE_PAGES - 10));
    assert_int_equal(h->cache.map.hugepages, 0);
    assert_int_equal(sa_huge_filler_backed(&h->filler), 10);
    page_heap_check();
    assert_true(sa_page_heap_extend(HEAP, s, 7 * SA_HUGE_PAGES));
    assert_false(sa_page_heap_extend(HEAP, s, 8 * SA_HUGE_PAGES));
    page_heap_check();
}

static void test_coalesce_serves_spans_that_grow(void **state)
{
    (void)state;
    test_child_passes(extend, NULL);
}

/* Under a limit only what has memory, or only what has none. */
static void limited(void *unused)
{
    size_t first = lay_out("ccccrr");

    (void)unused;
    sa_limits_set(SA_LIMIT_HARD, 1024 * MIB);
    assert_int_not_equal(hugepage_of(take(5 * SA_HUGE_PAGES)), first);
    assert_int_equal(hugepage_of(take(4 * SA_HUGE_PAGES)), first);
    page_heap_check();
}

static void test_coalesce_leaves_limits_alone(void **state)
{
    (void)state;
    test_child_passes(limited, NULL);
}

/* What is to be zero would have to be cleared, and be in memory for that. */
static void zero(void *unused)
{
    size_t first = lay_out("ccccrr");
    struct sa_span *s = sa_page_heap_alloc(HEAP, 5 * SA_HUGE_PAGES, 1, SA_PAGES_ZERO);

    (void)unused;
    assert_non_null(s);
    assert_int_not_equal(hugepage_of(s), first);
    assert_true(s->zeroed);
    assert_int_equal(hugepage_of(take(5 * SA_HUGE_PAGES)), first);
}

static void test_coalesce_leaves_zeros_alone(void **state)
{
    (void)state;
    test_child_passes(zero, NULL);
}

/* A program that has nothing but what it frees and takes again in each turn. What was released in
 * these turns. */
static uint64_t turns(int n, size_t hugepages)
{
    struct sa_page_heap_stats before, after;

    sa_page_heap_stats(HEAP, &before);
    for (int i = 0; i < n; i++) {
        sa_page_heap_free(HEAP, take(hugepages * SA_HUGE_PAGES), false);
        sa_page_heap_tick(HEAP, program.now_ns += 20 * MS);
    }
    sa_page_heap_stats(HEAP, &after);
    return after.released_ever_bytes - before.released_ever_bytes;
}

static void come_again(void *unused)
{
    const size_t n = 100;
    struct sa_page_heap_stats stats;

    (void)unused;
    program_begin("always madvise [never]\n", 1);
    for (int turn = 0; turn < 3; turn++) { /* nobody knows yet that it will come again */
        turns(1, n);
        sa_page_heap_stats(HEAP, &stats);
        assert_true(stats.backed_bytes <= 8 * MIB); /* of 200 MiB, 48 MiB would not save much */
    }
    turns(30, n);
    assert_int_equal(turns(200, n), 0);
    sa_page_heap_stats(HEAP, &stats);
    assert_int_equal(stats.backed_bytes, n * SA_HUGE_BYTES);
    for (int i = 0; i < 20; i++) /* ten seconds in which it is not needed */
        sa_page_heap_tick(HEAP, program.now_ns += 500 * MS);
    sa_page_heap_stats(HEAP, &stats);
    assert_true(stats.backed_bytes <= 10 * MIB);
    /* And all is as at first. */
    turns(1, n);
    sa_page_heap_stats(HEAP, &stats);
    assert_true(stats.backed_bytes <= 48 * MIB);
}

static void test_heap_keeps_what_comes_again(void **state)
{
    (void)state;
    test_child_passes(come_again, NULL);
}

/* What frees have released is kept from then on if it is missing soon, up to 48 MiB; for as long as
 * that is so. */
static void regret(void *unused)
{
    const size_t n = 20;
    struct sa_page_heap_stats stats;

    (void)unused;
    program_begin("always madvise [never]\n", 1);
    for (int turn = 0; turn < 2; turn++) {
        turns(1, n);
        sa_page_heap_stats(HEAP, &stats);
        assert_true(stats.backed_bytes <= 8 * MIB);
        assert_true(turns(1, n) <= n * SA_HUGE_BYTES);
        turns(1, n);
        assert_true(turns(10, n) <=
                    n * SA_HUGE_BYTES / 4); /* in time it is forgotten, and missing again */
        sa_page_heap_stats(HEAP, &stats);
        assert_true(stats.backed_bytes >= n * SA_HUGE_BYTES * 3 / 4);
        for (int i = 0; i < 60; i++) /* half a minute */
            sa_page_heap_tick(HEAP, program.now_ns += 500 * MS);
    }
}

/* What a span grows by is missing like any other. */
static void regret_growth(void *unused)
{
    struct sa_page_heap_stats before, after;

    (void)unused;
    program_begin("always madvise [never]\n", 1);
    sa_page_heap_free(HEAP, take(60 * SA_HUGE_PAGES), true);
    for (int turn = 0; turn < 20; turn++) {
        struct sa_span *s = take(2 * SA_HUGE_PAGES);

        if (turn == 5)
            sa_page_heap_stats(HEAP, &before);
        for (size_t n = 3; n <= 20; n++)
            assert_true(sa_page_heap_extend(HEAP, s, n * SA_HUGE_PAGES));
        sa_page_heap_free(HEAP, s, false);
        sa_page_heap_tick(HEAP, program.now_ns += 20 * MS);
    }
    sa_page_heap_stats(HEAP, &after);
    assert_true(after.released_ever_bytes - before.released_ever_bytes <= 20 * SA_HUGE_BYTES);
}

static void test_heap_keeps_what_was_missing(void **state)
{
    (void)state;
    test_child_passes(regret, NULL);
    test_child_passes(regret_growth, NULL);
}

/* There is a bound on what is kept where nothing else is in use. */
static void come_again_large(void *unused)
{
    struct sa_page_heap_stats stats;

    (void)unused;
    program_begin("always madvise [never]\n", 1);
    turns(20, 2000);
    sa_page_heap_stats(HEAP, &stats);
    assert_in_range(stats.backed_bytes, 240 * MIB, (256 + 48) * MIB); /* ticks release some */
}

static void test_heap_keeps_no_more_than_its_bound(void **state)
{
    (void)state;
    test_child_passes(come_again_large, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coalesce_uses_what_is_cached),
        cmocka_unit_test(test_coalesce_knows_what_its_tail_has),
        cmocka_unit_test(test_coalesce_serves_spans_that_grow),
        cmocka_unit_test(test_coalesce_leaves_limits_alone),
        cmocka_unit_test(test_coalesce_leaves_zeros_alone),
        cmocka_unit_test(test_heap_keeps_what_comes_again),
        cmocka_unit_test(test_heap_keeps_what_was_missing),
        cmocka_unit_test(test_heap_keeps_no_more_than_its_bound),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_join", tests, NULL, NULL);
}
