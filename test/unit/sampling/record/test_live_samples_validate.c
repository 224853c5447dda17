/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sa_live_samples_validate: it accepts the lists of a program that samples, frees, and has passed a
 * peak; and it aborts for each kind of damage, which children make in records of live samples.
 */
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/sampled.h"
#include "test/support/start.h"

#define BLOCKS 200

static void *blocks[BLOCKS];

static struct sa_sample *sample_of(const void *block)
{
    struct sa_sample *s = sa_pagemap_find((uintptr_t)block)->sample;

    assert_non_null(s);
    return s;
}

static void allocate_all(struct test_random *r)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (!blocks[i])
            blocks[i] = sa_front_alloc(test_random_size(r, 12), 1, false);
}

static void free_some(struct test_random *r)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (test_random_below(r, 2)) {
            sa_front_free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

/* Every block is sampled; after the first peak there are records of each list. */
static void test_validate_accepts_lists_in_order(void **state)
{
    struct test_random r = {0x7a11d};

    (void)state;
    set_interval(1);
    sa_live_samples_validate();
    for (int round = 0; round < 20; round++) {
        allocate_all(&r);
        assert_int_equal(live().samples, BLOCKS);
        sa_live_samples_validate();
        free_some(&r);
        assert_true(live().samples < BLOCKS && live().kept > 0);
        sa_live_samples_validate();
    }
    allocate_all(&r);
}

static void damage_prev(void *arg)
{
    struct sa_sample *s = sample_of(blocks[7]);

    (void)arg;
    s->prev = s;
    sa_live_samples_validate();
}

static void damage_next(void *arg)
{
    struct sa_sample *s = sample_of(blocks[7]);

    (void)arg;
    s->next = s->next->next;
    sa_live_samples_validate();
}

static void damage_number(void *arg)
{
    (void)arg;
    sample_of(blocks[7])->number++;
    sa_live_samples_validate();
}

static void damage_p(void *arg)
{
    (void)arg;
    sample_of(blocks[7])->p = 0;
    sa_live_samples_validate();
}

/* Two records that stay linked as they are, while a span points to the other one's. */
static void damage_span(void *arg)
{
    (void)arg;
    sa_pagemap_find((uintptr_t)blocks[7])->sample = sample_of(blocks[8]);
    sa_live_samples_validate();
}

/* The record leaves the list with its neighbours linked, so that only the count is wrong. */
static void damage_count(void *arg)
{
    struct sa_sample *s = sample_of(blocks[7]);

    (void)arg;
    s->next->prev = s->prev;
    s->prev->next = s->next;
    sa_live_samples_validate();
}

/* A record on its way out is in the list, and its span points to nothing. */
static void claim(void *arg)
{
    (void)arg;
    sa_pagemap_find((uintptr_t)blocks[7])->sample = NULL;
    sa_live_samples_validate();
}

static void test_validate_aborts_for_damage(void **state)
{
    (void)state;
    test_child_passes(claim, NULL);
    test_child_aborts(damage_prev, NULL, "s->prev == before");
    test_child_aborts(damage_next, NULL, "s->prev == before");
    test_child_aborts(damage_number, NULL, "s->number < before->number");
    test_child_aborts(damage_p, NULL, "s->p > 0");
    test_child_aborts(damage_span, NULL, "back == s");
    test_child_aborts(damage_count, NULL, "count == live.count");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_validate_accepts_lists_in_order),
        cmocka_unit_test(test_validate_aborts_for_damage),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("live_samples_validate", tests, NULL, NULL);
}
