/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watched blocks: the first ones are guarded, a budget bounds the rest, and places that seldom
 * allocate come first. A watched block has its size to the byte, and its object goes back when it
 * is freed.
 */
#include "alloc/hardening/watched.h"

#include "alloc/base/hardening.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/os/thread.h"
#include "test/support/child.h"
#include "test/support/guards.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <time.h>

#define SLOTS 1024
#define TOKENS                                                                                     \
    256           /* as in watched.c: blocks at the start; in a test there is time for a few more */
#define LATER 128 /* blocks in 128 ms */

static uint64_t now_ns = 1000000000;

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    (void)clock;
    return __atomic_load_n(&now_ns, __ATOMIC_RELAXED);
}

/* An allocation by a place of its own: as many frames deep as `place` says. */
static SA_NOINLINE void *alloc_at(unsigned place, size_t size)
{
    volatile char room[48];
    const void *before = sa_thread.caller;
    void *p;

    room[0] = (char)place;
    if (place) {
        p = alloc_at(place - 1, size);
    } else {
        sa_thread.caller = __builtin_dwarf_cfa();
        p = sa_front_alloc(size, 1, false);
        sa_thread.caller = before;
    }
    return room[0] == (char)place ? p : NULL;
}

static SA_NOINLINE bool watches_one_of(unsigned place, size_t size)
{
    void *p = alloc_at(place, size);
    bool is = is_guarded(p);

    sa_front_free(p);
    return is;
}

/* How many of n blocks of a place are watched. */
static SA_NOINLINE unsigned watched_of(unsigned place, unsigned n)
{
    unsigned watched = 0;

    for (unsigned i = 0; i < n; i++)
        watched += watches_one_of(place, 100);
    return watched;
}

static void refill(void)
{
    now_ns += 1000000000;
    watches_one_of(1, 100);
}

static void assert_nothing_watched(void)
{
    sa_fork_gate_enter();
    sa_hardened_flush();
    sa_fork_gate_leave();
    assert_nothing_in_use();
    assert_int_equal(guarded().allocated, 0);
}

/* A loop gets what is there at first, but for the share of others, and later no more than time
 * gives. */
static void test_watched_is_bounded(void **state)
{
    unsigned first, later = 0;

    (void)state;
    refill();
    first = watched_of(0, 20000);
    assert_in_range(first, TOKENS / 4, TOKENS);
    assert_int_equal(watched_of(0, 20000), 0);
    for (unsigned i = 0; i < LATER; i++, now_ns += 1000000)
        later += watched_of(0, 1000);
    /* As counters fade, the place may have a few of the others' share. */
    assert_in_range(later, 1, LATER + 4);
    assert_nothing_watched();
}

/* A place that has not allocated yet is watched while a loop takes all that it gets. */
static void test_watched_places_that_are_rare_come_first(void **state)
{
    unsigned n = 0;

    (void)state;
    refill();
    watched_of(0, 20000);
    for (unsigned place = 10; place < 20; place++) {
        n += watches_one_of(place, 24);
        watched_of(0, 1000);
    }
    /* One that shares its counter, of 4096, with one of the two places before has none: three of
     * them once in 10^7 runs. */
    assert_in_range(n, 8, 10);
    assert_nothing_watched();
}

/* In the end their share is used up, too, whatever they are. */
static void test_watched_places_are_bounded_together(void **state)
{
    unsigned n = 0;

    (void)state;
    refill();
    for (unsigned place = 0; place < 400; place++)
        n += watched_of(place, 4);
    assert_in_range(n, TOKENS / 2, TOKENS);
    assert_nothing_watched();
}

/* What is larger takes more of the budget. */
static void test_watched_large_blocks_count_for_more(void **state)
{
    unsigned n = 0;

    (void)state;
    refill();
    for (unsigned place = 0; place < 400; place++)
        n += watches_one_of(place, 160000);
    assert_in_range(n, 1, TOKENS / 10 + 1);
    assert_nothing_watched();
}

/* Blocks of no bytes need no tokens, and have nothing that can be accessed. */
static void test_watched_blocks_of_no_bytes(void **state)
{
    void *p[100];

    (void)state;
    refill();
    watched_of(0, 20000);
    for (unsigned i = 0; i < 100; i++) {
        p[i] = alloc_at(0, 0);
        assert_true(is_guarded(p[i]));
        assert_false(accessible((uintptr_t)p[i]));
        assert_int_equal(sa_front_size(p[i], "test"), 0);
        for (unsigned k = 0; k < i; k++)
            assert_ptr_not_equal(p[i], p[k]);
    }
    for (unsigned i = 0; i < 100; i++)
        sa_front_free(p[i]);
    assert_nothing_watched();
}

/* Sizes, alignments, calloc and realloc: as of any block. Gone when it is freed. */
static void test_watched_blocks_are_blocks(void **state)
{
    (void)state;
    for (size_t size = 1; size < 200000; size = size * 3 + 1)
        for (size_t align = 16; align <= 4096; align *= 4) {
            unsigned char *p, *q;

            refill();
            p = sa_front_alloc(size, align, true);
            assert_true(is_guarded(p));
            assert_int_equal((uintptr_t)p % align, 0);
            assert_int_equal(sa_front_size(p, "test"), size);
            assert_true(is_zero(p, size));
            fill(p, size, 5);
            q = sa_front_realloc(p, size + 1);
            assert_ptr_not_equal(p, q);
            assert_false(accessible((uintptr_t)p));
            assert_filled(q, size, 5);
            sa_front_free(q);
        }
    assert_nothing_watched();
}

/* More live blocks than there are slots: the others are ordinary. */
static void test_watched_slots_run_out(void **state)
{
    static void *p[2 * SLOTS];
    unsigned n = 0;

    (void)state;
    for (unsigned i = 0; i < TEST_COUNT(p); i++) {
        if (i % (TOKENS / 4) == 0)
            refill();
        p[i] = alloc_at(0, 40);
        n += is_guarded(p[i]);
    }
    assert_in_range(n, SLOTS / 4, SLOTS / 2);
    for (unsigned i = 0; i < TEST_COUNT(p); i++)
        sa_front_free(p[i]);
    assert_nothing_watched();
}

static void free_twice(void *unused)
{
    void *p;

    (void)unused;
    refill();
    p = alloc_at(3, 40);
    CHILD_CHECK(is_guarded(p));
    sa_front_free(p);
    sa_front_free(p);
}

static void write_beside(void *unused)
{
    unsigned char *p;

    (void)unused;
    refill();
    p = alloc_at(3, 50);
    CHILD_CHECK(is_guarded(p));
    p[(uintptr_t)p % sa_vm.page_bytes ? -1 : 50] = 1; /* on its page */
    sa_front_free(p);
}

static void test_watched_misuse(void **state)
{
    (void)state;
    test_child_aborts_with_stacks(free_twice, NULL, "double free");
    test_child_aborts_with_stacks(write_beside, NULL, "heap buffer");
}

/* Threads that allocate from each other's blocks: nothing is lost. */
static void trade(int index, void *unused)
{
    struct test_random r = {(uint64_t)index + 1};
    void *p[64] = {0};

    (void)unused;

    for (unsigned i = 0; i < 20000; i++) {
        unsigned at = test_random_below(&r, 64);

        if (p[at])
            sa_front_free(p[at]);
        p[at] = sa_front_alloc(test_random_below(&r, 3000), 1, false);
        if (i % 100 == 0)
            sa_add_relaxed(&now_ns, 5000000ull);
    }
    for (unsigned i = 0; i < 64; i++)
        if (p[i])
            sa_front_free(p[i]);
}

static void test_watched_threads(void **state)
{
    (void)state;
    test_threads_run(4, trade, NULL);
    assert_nothing_watched();
}

int main(void)
{
    static const uint64_t secret[4] = {25, 26, 27, 28};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watched_is_bounded),
        cmocka_unit_test(test_watched_places_that_are_rare_come_first),
        cmocka_unit_test(test_watched_places_are_bounded_together),
        cmocka_unit_test(test_watched_large_blocks_count_for_more),
        cmocka_unit_test(test_watched_blocks_of_no_bytes),
        cmocka_unit_test(test_watched_blocks_are_blocks),
        cmocka_unit_test(test_watched_slots_run_out),
        cmocka_unit_test(test_watched_misuse),
        cmocka_unit_test(test_watched_threads),
    };

    test_start_layers();
    sa_hardening_init(&(struct sa_hardening){.canaries = true,
                                             .scatter = true,
                                             .watch = true,
                                             .junk_freed = true,
                                             .quarantine_bytes = 1 << 20},
                      secret);
    sa_quarantine_init(1 << 20);
    sa_guard_policy_init(1, 1);
    sa_guarded_init(SLOTS, 2);
    sa_watched_init();
    test_start(TEST_CACHE_LIMIT);
    set_interval(0);
    return cmocka_run_group_tests_name("watched", tests, NULL, NULL);
}
