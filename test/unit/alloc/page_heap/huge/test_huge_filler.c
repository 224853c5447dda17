/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filler: that it packs densely, and which hugepages it offers to be collapsed. What happens in
 * any sequence is compared with arrays by test/fuzz/fuzz_huge_filler.c. No system is involved: a
 * release is what the test says it is. (Demand that speaks against a release: test_huge_heap.c.)
 */
#include "alloc/page_heap/huge/huge_filler.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <stdlib.h>
#include <string.h>

#define HUGEPAGES 60
#define SPANS     1500
#define PAGES     8 /* of a span where all are alike */

static struct sa_huge_filler *filler;
static struct sa_huge_tracker trackers[HUGEPAGES];
static unsigned in_use; /* of them, from the first */

static void begin(void)
{
    free(filler);
    filler = aligned_alloc(_Alignof(struct sa_huge_filler), sizeof(*filler));
    assert_non_null(filler);
    memset(filler, 0, sizeof(*filler));
    sa_huge_filler_init(filler);
    in_use = 0;
    sa_huge_filler_tick(filler, 7000000000);
}

/* A hugepage more, with one span on it. */
static struct sa_huge_tracker *add(uint32_t n, bool advised)
{
    struct sa_huge_tracker *t = &trackers[in_use];

    assert_true(in_use < HUGEPAGES);
    sa_huge_filler_prepare(t, in_use++, 0, advised);
    sa_huge_filler_add(filler, t, n, false, false);
    return t;
}

/* Spans of a length come and go. Nearly empty hugepages become empty: of many, half freed at
 * random, fewer are used for what comes next. */
static void test_filler_packs_densely(void **state)
{
    static struct sa_filler_place spans[SPANS];
    struct test_random r = {0x9ac};
    unsigned count = 0;

    (void)state;
    begin();
    while (count < SPANS) {
        struct sa_filler_place p = sa_huge_filler_find(filler, PAGES, 1, false);

        if (p.tracker)
            sa_huge_filler_commit(filler, &p, false);
        else
            p = (struct sa_filler_place){.tracker = add(PAGES, false), .at = 0};
        spans[count++] = p;
    }
    assert_int_equal(filler->hugepages, (SPANS * PAGES + SA_HUGE_PAGES - 1) / SA_HUGE_PAGES);
    for (int i = 0; i < 20000; i++) { /* steady state at half the size */
        unsigned at = (unsigned)test_random_below(&r, count);

        if (sa_huge_filler_put(filler, spans[at].tracker, spans[at].at, PAGES, false))
            sa_huge_filler_remove(filler, spans[at].tracker);
        spans[at] = spans[--count];
        if (count < SPANS / 2) {
            spans[count] = sa_huge_filler_find(filler, PAGES, 1, false);
            assert_non_null(spans[count].tracker);
            sa_huge_filler_commit(filler, &spans[count++], false);
        }
    }
    /* 750 of them fill 23.4 hugepages: it gets along with few more, where first fit would keep
     * all. */
    assert_in_range(filler->hugepages, 24, 36);
}

/* Begins a release of a hugepage with at least so many free pages, has all of its mask released,
 * and returns the pages that were backed. */
static uint32_t release_all_of(uint32_t least)
{
    struct sa_filler_release release;
    uint64_t done[SA_HUGE_WORDS];
    uint32_t released;
    bool empty;

    assert_true(sa_huge_filler_begin(filler, (struct sa_filler_least){least, least}, &release));
    memcpy(done, release.mask, sizeof(done));
    released = sa_huge_filler_end(filler, &release, done, &empty);
    assert_false(empty);
    return released;
}

/* Free pages of one run go back by one call, also if some of the run went back before. */
static void test_filler_releases_whole_runs(void **state)
{
    struct sa_filler_release release;
    uint64_t done[SA_HUGE_WORDS] = {0};
    bool empty;

    (void)state;
    begin();
    add(256, false);
    sa_huge_filler_trim(filler, &trackers[0], 20, 40, false);
    assert_int_equal(release_all_of(32), 40);
    sa_huge_filler_trim(filler, &trackers[0], 10, 10, false);
    sa_huge_filler_trim(filler, &trackers[0], 60, 4, false);
    sa_huge_filler_trim(filler, &trackers[0], 100, 1, false);
    assert_false(sa_huge_filler_can_release(filler, (struct sa_filler_least){32, 32}));
    assert_true(sa_huge_filler_begin(filler, (struct sa_filler_least){15, 32}, &release));
    assert_int_equal(release.pages, 55);
    assert_int_equal(sa_bits_count(release.mask, 10, 54), 54);
    assert_int_equal(sa_bits_count(release.mask, 0, SA_HUGE_PAGES), 55);
    assert_int_equal(sa_bits_count(release.backed, 0, SA_HUGE_PAGES), 15);
    /* The kernel refuses after the first twelve: of those, ten had been backed. */
    sa_bits_fill(done, 10, 12, true);
    assert_int_equal(sa_huge_filler_end(filler, &release, done, &empty), 10);
    assert_false(empty);
    assert_int_equal(sa_huge_tracker_backed(&trackers[0]), 5);
    assert_int_equal(trackers[0].unbacked_pages, 50);
    assert_int_equal(sa_huge_filler_backed(filler), 5);
}

/* The queue of hugepages to be collapsed: full ones, each a few times, and not those that the
 * kernel backs as a whole, but for subreleased ones. */
static void test_filler_offers_full_hugepages(void **state)
{
    (void)state;
    begin();
    add(200, false);
    assert_null(sa_huge_filler_next_full(filler));
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 200, 50));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[0]);
    assert_null(sa_huge_filler_next_full(filler));
    /* It is offered again after it was not so full. */
    sa_huge_filler_trim(filler, &trackers[0], 100, 150, false);
    assert_null(sa_huge_filler_next_full(filler));
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 100, 156));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[0]);
    /* Subreleased: the same, and when all of it is backed again, no longer. */
    sa_huge_filler_trim(filler, &trackers[0], 100, 156, false);
    release_all_of(1);
    assert_true(trackers[0].subreleased);
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 100, 130));
    assert_null(sa_huge_filler_next_full(filler));
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 230, 20));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[0]);
    assert_true(trackers[0].subreleased);
    sa_huge_filler_collapsed(filler, &trackers[0]);
    assert_false(trackers[0].subreleased);
    assert_int_equal(sa_huge_tracker_backed(&trackers[0]), 6);
    assert_int_equal(sa_huge_filler_backed(filler), 6);
    /* One that the kernel makes is never asked for, unless it was subreleased. */
    add(256, true);
    assert_null(sa_huge_filler_next_full(filler));
    sa_huge_filler_trim(filler, &trackers[1], 100, 156, false);
    release_all_of(50);
    assert_true(sa_huge_filler_extend(filler, &trackers[1], 100, 150));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filler_packs_densely),
        cmocka_unit_test(test_filler_releases_whole_runs),
        cmocka_unit_test(test_filler_offers_full_hugepages),
    };

    return cmocka_run_group_tests_name("huge_filler", tests, NULL, NULL);
}
