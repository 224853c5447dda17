/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory while a fork is in progress: aligned, zeroed, recognised; frees are put aside and taken up
 * later; and the allocator's functions use it when the gate stays closed.
 */
#include "alloc/fork/emergency_heap.h"

#include "alloc/fork/fork_gate.h"
#include "alloc/front/slow_path.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

static bool is_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static void test_emergency_owns_nothing_at_first(void **state)
{
    size_t size;
    int local;

    (void)state;
    assert_false(sa_emergency_heap_owns(NULL, &size));
    assert_false(sa_emergency_heap_owns(&local, &size));
    assert_null(sa_emergency_heap_take());
}

static void test_emergency_blocks_are_aligned_zeroed_and_disjoint(void **state)
{
    enum { BLOCKS = 300 };
    struct test_random r = {0xe3e};
    static struct {
        unsigned char *p;
        size_t size;
    } carved[BLOCKS];

    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        size_t align = (size_t)1 << test_random_below(&r, 17), size = test_random_size(&r, 16), is;

        if (i == 100)
            size = 5 << 20; /* more than a mapping */
        if (i == 200)
            align = 4 << 20;
        if (i == 250)
            size = 0;
        carved[i].size = size;
        carved[i].p = sa_emergency_heap_alloc(size, align);
        assert_non_null(carved[i].p);
        assert_int_equal((uintptr_t)carved[i].p % (align < 16 ? 16 : align), 0);
        assert_true(is_zero(carved[i].p, size));
        assert_true(sa_emergency_heap_owns(carved[i].p, &is));
        /* Classes and powers of two are less than twice as large as what they serve. */
        assert_in_range(is, size, 2 * (size < 8 ? 8 : size));
        memset(carved[i].p, i % 255 + 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        for (size_t at = 0; at < carved[i].size; at += 7)
            assert_int_equal(carved[i].p[at], i % 255 + 1);
}

static void test_emergency_refuses_impossible_sizes(void **state)
{
    (void)state;
    assert_null(sa_emergency_heap_alloc(SIZE_MAX, 1));
    assert_null(sa_emergency_heap_alloc(SIZE_MAX / 2, 1));
    assert_null(sa_emergency_heap_alloc((size_t)1 << 60, 1));
    assert_null(sa_emergency_heap_alloc(1, (size_t)1 << 62));
    test_faults.mmap_after = 0;
    assert_null(sa_emergency_heap_alloc(8 << 20, 1));
    test_faults_clear();
    assert_non_null(sa_emergency_heap_alloc(8 << 20, 1));
}

static void test_emergency_keeps_what_is_put_aside(void **state)
{
    void *put[3][4], *p;
    int n = 0;

    (void)state;
    for (int i = 0; i < 3; i++)
        sa_emergency_heap_put_aside(put[i]);
    for (p = sa_emergency_heap_take(); p; p = *(void **)p, n++)
        assert_ptr_equal(p, put[2 - n]);
    assert_int_equal(n, 3);
    assert_null(sa_emergency_heap_take());
    sa_emergency_heap_put_aside(put[0]);
    sa_emergency_heap_after_fork();
    assert_null(sa_emergency_heap_take());
}

#define THREAD_BLOCKS 2000

static void *aside[4][THREAD_BLOCKS];
static uint64_t taken; /* atomic */

static void carve_and_put(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < THREAD_BLOCKS; i++) {
        size_t size = 16 + (size_t)(i % 50) * 16;
        unsigned char *p = sa_emergency_heap_alloc(size, 16);

        THREAD_CHECK(p && is_zero(p, size));
        memset(p, index + 1, size);
        THREAD_CHECK(p[0] == index + 1 && p[size - 1] == index + 1);
        sa_emergency_heap_put_aside(&aside[index][i]);
        if (i % 100 == 0)
            for (void **q = sa_emergency_heap_take(); q; q = *q)
                __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    }
}

static void test_emergency_serves_threads(void **state)
{
    (void)state;
    test_threads_run(4, carve_and_put, NULL);
    test_threads_check();
    for (void **q = sa_emergency_heap_take(); q; q = *q)
        taken++;
    assert_int_equal(taken, 4 * THREAD_BLOCKS);
}

/* Blocks of the heap, and what became of them behind the gate. */
static struct {
    unsigned char *small, *large, *grown, *fresh;
} blocks;

/* What another thread does while this one has the gate closed, for longer than it waits. */
static void behind_the_gate(int index, void *arg)
{
    size_t size = 0;

    (void)index;
    (void)arg;
    blocks.fresh = sa_front_alloc(1000, 64, true);
    THREAD_CHECK(blocks.fresh && sa_emergency_heap_owns(blocks.fresh, &size) && size >= 1000);
    THREAD_CHECK((uintptr_t)blocks.fresh % 64 == 0);
    THREAD_CHECK(is_zero(blocks.fresh, 1000));
    memset(blocks.fresh, 5, 1000);
    THREAD_CHECK(sa_front_size(blocks.fresh, "test") >= 1000);
    THREAD_CHECK(sa_front_size_if_ours(blocks.fresh) >= 1000);
    sa_front_free(blocks.small); /* put aside */
    sa_front_free_sized(blocks.large, 1 << 20, 0);
    blocks.grown = sa_front_realloc(blocks.grown, 5000);
    THREAD_CHECK(blocks.grown && sa_emergency_heap_owns(blocks.grown, &size));
    for (int i = 0; i < 100; i++)
        THREAD_CHECK(blocks.grown[i] == 7);
}

static void test_emergency_serves_the_allocator_while_the_gate_is_closed(void **state)
{
    unsigned char *again;
    size_t size;

    (void)state;
    blocks.small = sa_front_alloc(100, 1, false);
    blocks.large = sa_front_alloc(1 << 20, 1, false);
    blocks.grown = sa_front_alloc(100, 1, false);
    memset(blocks.grown, 7, 100);
    sa_fork_gate_close();
    test_threads_run(1, behind_the_gate, NULL);
    test_threads_check();
    sa_fork_gate_open();

    again = sa_front_alloc(100, 1, false); /* takes up what was put aside */
    assert_non_null(again);
    assert_false(sa_emergency_heap_owns(again, &size));
    assert_null(sa_emergency_heap_take());
    /* The large block is back; a small one cannot be told from one in a cache. */
    assert_int_equal(sa_front_size_if_ours(blocks.large), 0);
    blocks.fresh = sa_front_realloc(blocks.fresh, 3000); /* moves to the heap */
    assert_true(blocks.fresh && !sa_emergency_heap_owns(blocks.fresh, &size));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(blocks.fresh[i], 5);
    sa_front_free(blocks.grown); /* for the next time */
    sa_front_free(blocks.fresh);
    sa_front_free(again);
}

/* What is freed is used again, cleared; one that is not aligned as asked for stays. */
static void test_emergency_uses_blocks_again(void **state)
{
    size_t size;

    (void)state;
    for (size_t bytes = 24; bytes < 4 << 20; bytes *= 7) {
        unsigned char *p = sa_emergency_heap_alloc(bytes, 1), *q;

        assert_true(p && sa_emergency_heap_owns(p, &size));
        memset(p, 3, size);
        sa_emergency_heap_free(p, size);
        q = sa_emergency_heap_alloc(bytes, 1ul << 21);
        assert_ptr_not_equal(q, p);
        q = sa_emergency_heap_alloc(bytes, 1);
        assert_ptr_equal(q, p);
        assert_true(is_zero(q, bytes));
    }
}

/* A child of vfork may be killed anywhere: it is not counted at the gate, and takes no locks. */
static void test_emergency_serves_children_of_vfork(void **state)
{
    unsigned char *heap = sa_front_alloc(300000, 1, false), *p;
    size_t size;

    (void)state;
    sa_thread.area.vfork = 1;
    assert_false(sa_fork_gate_enter());
    p = sa_front_alloc(100, 64, true);
    assert_true(p && sa_emergency_heap_owns(p, &size) && (uintptr_t)p % 64 == 0);
    sa_front_free(heap);
    assert_true(sa_front_size_if_ours(heap) >= 300000);
    sa_thread.area.vfork = 1 | SA_VFORK_OWN; /* a copy of it has locks of its own */
    assert_true(sa_fork_gate_enter());
    sa_fork_gate_leave();
    sa_thread.area.vfork = 0;
    sa_front_free(p);
    sa_front_free(sa_front_alloc(300000, 1, false));
    assert_int_equal(sa_front_size_if_ours(heap), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_emergency_owns_nothing_at_first),
        cmocka_unit_test(test_emergency_blocks_are_aligned_zeroed_and_disjoint),
        cmocka_unit_test(test_emergency_refuses_impossible_sizes),
        cmocka_unit_test(test_emergency_keeps_what_is_put_aside),
        cmocka_unit_test(test_emergency_serves_threads),
        cmocka_unit_test(test_emergency_serves_the_allocator_while_the_gate_is_closed),
        cmocka_unit_test(test_emergency_uses_blocks_again),
        cmocka_unit_test(test_emergency_serves_children_of_vfork),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("emergency", tests, NULL, NULL);
}
