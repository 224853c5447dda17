/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch memory: blocks are distinct, run out, and come back; and what the slow paths do without
 * it. A sample whose stack cannot be captured is recorded with the unknown stack.
 */
#include "alloc/os/scratch.h"

#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/maintain/maintenance.h"
#include "test/support/random.h"
#include "test/support/sampled.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

static void *all[SA_SCRATCHES];

static void take_all(void)
{
    for (unsigned i = 0; i < SA_SCRATCHES; i++)
        assert_non_null(all[i] = sa_scratch_take());
    assert_null(sa_scratch_take());
}

static void give_all(void)
{
    for (unsigned i = 0; i < SA_SCRATCHES; i++)
        sa_scratch_give(all[i]);
}

static void test_scratch_blocks_are_apart(void **state)
{
    (void)state;
    take_all();
    for (unsigned i = 0; i < SA_SCRATCHES; i++) {
        assert_int_equal((uintptr_t)all[i] % SA_CACHELINE, 0);
        memset(all[i], (int)i, SA_SCRATCH_BYTES);
    }
    for (unsigned i = 0; i < SA_SCRATCHES; i++)
        for (size_t at = 0; at < SA_SCRATCH_BYTES; at++)
            assert_int_equal(((unsigned char *)all[i])[at], i);
    sa_scratch_give(all[7]);
    assert_ptr_equal(sa_scratch_take(), all[7]);
    give_all();
    sa_scratch_give(NULL);
}

static void take_and_give(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < 200000; i++) {
        uint32_t *block = sa_scratch_take();

        if (!block)
            continue;
        for (int k = 0; k < 8; k++)
            block[k] = (uint32_t)index;
        for (int k = 0; k < 8; k++)
            THREAD_CHECK(block[k] == (uint32_t)index);
        sa_scratch_give(block);
    }
}

static void test_scratch_belongs_to_one_thread(void **state)
{
    (void)state;
    test_threads_run(8, take_and_give, NULL);
    test_threads_check();
    take_all(); /* nothing was lost */
    give_all();
}

static void test_scratch_serves_few(void **state)
{
    void *few[SA_BATCH_FEW];
    struct sa_batch b = sa_batch_begin(few);

    (void)state;
    assert_int_equal(b.max, SA_BATCH_MAX);
    sa_batch_end(&b);
    take_all();
    b = sa_batch_begin(few);
    assert_ptr_equal(b.objs, few);
    assert_int_equal(b.max, SA_BATCH_FEW);
    sa_batch_end(&b);
    give_all();
}

/* Every sample is recorded. Without scratch memory it has the unknown stack, with it another one.
 */
static void test_scratch_missing_loses_no_sample(void **state)
{
    struct sa_sampler_stats before = taken();
    void *with, *without[100];

    (void)state;
    set_interval(1);
    with = sa_front_alloc(100, 1, false);
    take_all();
    for (int i = 0; i < 100; i++)
        without[i] = sa_front_alloc((size_t)i * 30 + 1, 1, false);
    give_all();
    assert_ptr_not_equal(sa_pagemap_find((uintptr_t)with)->sample->stack, &sa_stack_unknown);
    for (int i = 0; i < 100; i++) {
        const struct sa_span *s = sa_pagemap_find((uintptr_t)without[i]);

        assert_true(own_page(without[i]) && s->sample);
        assert_ptr_equal(s->sample->stack, &sa_stack_unknown);
    }
    assert_int_equal(taken().taken - before.taken, 101);
    assert_int_equal(taken().failed, before.failed);
    sa_front_free(with);
    take_all();
    for (int i = 0; i < 100; i++)
        sa_front_free(without[i]);
    give_all();
    set_interval(0);
    assert_int_equal(live().samples, 0);
}

/* Blocks come and go, and memory goes back, without scratch memory. */
static void test_scratch_missing_stops_nothing(void **state)
{
    enum { N = 20000 };
    static unsigned char *p[N];
    struct test_random r = {5};

    (void)state;
    take_all();
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < N; i++) {
            size_t size = 1 + test_random_below(&r, turn == 2 ? 20000 : 600);

            assert_non_null(p[i] = sa_front_alloc(size, 1, false));
            p[i][0] = (unsigned char)i;
            p[i][size - 1] = (unsigned char)i;
        }
        for (int i = 0; i < N; i++) {
            assert_int_equal(p[i][0], (unsigned char)i);
            sa_front_free(p[i]);
        }
        sa_fork_gate_enter();
        sa_maintenance_release(64ul << 20);
        sa_fork_gate_leave();
    }
    give_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scratch_blocks_are_apart),
        cmocka_unit_test(test_scratch_belongs_to_one_thread),
        cmocka_unit_test(test_scratch_serves_few),
        cmocka_unit_test(test_scratch_missing_loses_no_sample),
        cmocka_unit_test(test_scratch_missing_stops_nothing),
    };

    test_start_layers();
    sa_sampler_init(0, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("scratch", tests, NULL, NULL);
}
