/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that move: what is asked for and moved in turn ends on few spans, keeps its content, and
 * leaves counters as they were. Other threads allocate meanwhile in the last test.
 */
#include "alloc/front/defragment.h"

#include "alloc/base/size_class.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/central_move.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/account/peak.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <pthread.h>
#include <string.h>

#define BLOCKS 20000
#define SIZE   200
#define ROUNDS 8

static unsigned char *blocks[BLOCKS];

static void fill(unsigned char *p, size_t i)
{
    memset(p, (int)(i * 7 % 251), SIZE);
}

static void check(const unsigned char *p, size_t i)
{
    for (size_t k = 0; k < SIZE; k++)
        assert_int_equal(p[k], i * 7 % 251);
}

/* Fills spans, and keeps one block in eight at random. */
static void make_sparse(uint64_t seed)
{
    struct test_random r = {seed};

    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = sa_front_alloc(SIZE, 0, false);
        assert_non_null(blocks[i]);
        fill(blocks[i], i);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (test_random_below(&r, 8)) {
            sa_front_free_aligned(blocks[i], 0);
            blocks[i] = NULL;
        }
    sa_maintenance_release_requested(0); /* empties the caches */
}

/* Asks for each block, and moves those that are worth it. Returns how many moved. */
static size_t defragment(void)
{
    size_t moved = 0;

    for (size_t i = 0; i < BLOCKS; i++) {
        unsigned char *p =
            blocks[i] && sa_front_worth_moving(blocks[i]) ? sa_front_move(blocks[i]) : NULL;

        if (!p)
            continue;
        check(p, i);
        blocks[i] = p;
        moved++;
    }
    return moved;
}

static void free_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (!blocks[i])
            continue;
        check(blocks[i], i);
        sa_front_free_aligned(blocks[i], 0);
        blocks[i] = NULL;
    }
}

/* The blocks that stay end on at most 1.5 times the spans that they would fill, which is what eight
 * rounds over a random eighth reach with room to spare; the class counts nothing twice. */
static void test_sparse_spans_become_few(void **state)
{
    unsigned cls = sa_size_class_find(SIZE);
    struct sa_central_stats stats, before;
    size_t live = 0, need, moved;
    int64_t in_use;

    (void)state;
    make_sparse(1);
    for (size_t i = 0; i < BLOCKS; i++)
        live += blocks[i] != NULL;
    need = live / sa_size_classes.of[cls].objects + 1;
    sa_central_stats(cls, &before);
    assert_true(before.spans > 4 * need);
    in_use = sa_in_use.bytes;
    for (int i = 0; i < ROUNDS && defragment(); i++)
        ;
    sa_central_stats(cls, &stats);
    assert_int_equal(sa_in_use.bytes, in_use);
    assert_true(stats.spans <= need + need / 2);
    moved = defragment();
    assert_true(moved < live / 4);
    free_all();
}

static void test_what_does_not_move(void **state)
{
    unsigned char *small = sa_front_alloc(SIZE, 0, false),
                  *large = sa_front_alloc(1 << 20, 0, false);
    int on_stack;

    (void)state;
    assert_false(sa_front_worth_moving(NULL));
    assert_false(sa_front_worth_moving(&on_stack));
    assert_false(sa_front_worth_moving(small + 1));
    assert_false(sa_front_worth_moving(large));
    assert_null(sa_front_move(large));
    sa_front_free_aligned(small, 0);
    sa_front_free_aligned(large, 0);
}

/* Blocks on mixed spans are asked for and moved as others are. */
static void test_mixed_spans(void **state)
{
    size_t asked = 0;

    (void)state;
    make_sparse(2);
    sa_mixed_use = SA_MIXED_ALWAYS;
    for (size_t i = 0; i < 2000; i++)
        assert_non_null(sa_front_alloc(1500, 0, false));
    assert_true(sa_mixed_used_bytes() > 0);
    for (size_t i = 0; i < BLOCKS; i++)
        asked += blocks[i] && sa_front_worth_moving(blocks[i]);
    assert_true(asked > 0);
    defragment();
    sa_mixed_validate();
    free_all();
    sa_mixed_use = SA_MIXED_AUTO;
}

static void *churn(void *seed)
{
    struct test_random r = {(uintptr_t)seed};
    void *held[256] = {0};

    for (int i = 0; i < 200000; i++) {
        void **slot = &held[test_random_below(&r, 256)];

        if (*slot)
            sa_front_free_aligned(*slot, 0);
        *slot = sa_front_alloc(SIZE - test_random_below(&r, 8), 0, false);
    }
    for (int i = 0; i < 256; i++)
        if (held[i])
            sa_front_free_aligned(held[i], 0);
    return NULL;
}

static void test_beside_threads(void **state)
{
    pthread_t threads[2];

    (void)state;
    make_sparse(3);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++)
        defragment();
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    defragment();
    free_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sparse_spans_become_few),
        cmocka_unit_test(test_what_does_not_move),
        cmocka_unit_test(test_beside_threads),
        cmocka_unit_test(test_mixed_spans),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("defragment", tests, NULL, NULL);
}
