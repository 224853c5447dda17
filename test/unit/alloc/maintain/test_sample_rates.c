/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling probabilities chosen by class: the class that holds the heap gets more than the default,
 * the one that only churns less but not nothing; setting the interval goes back to the default;
 * without the option nothing is chosen.
 */
#include "alloc/maintain/sample_rates.h"

#include "alloc/base/size_class.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/front/slow_path.h"
#include "sampling/estimate/rates.h"
#include "sampling/sampler/sampler.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#define INTERVAL 65536
#define KEPT     20000
#define SECOND   1000000000ull

static void *kept[KEPT];

/* The larger blocks stay, the smaller come and go. */
static void work(void)
{
    for (int i = 0; i < KEPT; i++) {
        kept[i] = sa_front_alloc(500, 1, false);
        for (int j = 0; j < 20; j++)
            sa_front_free(sa_front_alloc(40, 1, false));
    }
}

static void tick(uint64_t now)
{
    assert_true(sa_fork_gate_enter());
    sa_sample_rates_tick(now);
    sa_fork_gate_leave();
}

static void test_sample_rates(void **state)
{
    unsigned large = sa_size_class_find(500), small = sa_size_class_find(40);
    double by_default = sa_rate_of_class(large).p, by_default_small = sa_rate_of_class(small).p;
    struct sa_sample_rates_stats s;
    uint32_t generation;

    (void)state;
    work();
    tick(10 * SECOND);
    sa_sample_rates_stats(&s);
    assert_false(s.optimised);
    assert_true(sa_rate_of_class(large).p == by_default);

    sa_sample_rates_optimise(true);
    tick(20 * SECOND);
    sa_sample_rates_stats(&s);
    assert_true(s.optimised);
    assert_int_equal(s.optimizations, 1);
    assert_true(s.variance > 1.5);
    assert_true(sa_rate_of_class(large).p > by_default);
    assert_true(sa_rate_of_class(small).p < by_default_small);
    assert_true(sa_rate_of_class(small).p >= by_default_small / 10 * (1 - 1e-9));
    /* The interval that gives a class's probability follows from it. */
    assert_true(
        sa_rate_probability(sa_rate_of_class(large).interval, sa_size_classes.of[large].size) /
                sa_rate_of_class(large).p -
            1 <
        1e-9);

    generation = sa_rates_generation();
    tick(20 * SECOND + SECOND / 2); /* too early */
    assert_int_equal(sa_rates_generation(), generation);
    tick(22 * SECOND);
    assert_int_equal(sa_rates_generation(), generation + 1);

    assert_true(sa_fork_gate_enter());
    sa_sample_rates_set_interval(INTERVAL);
    sa_fork_gate_leave();
    assert_true(sa_rate_of_class(large).p == by_default);
    for (int i = 0; i < KEPT; i++)
        sa_front_free(kept[i]);
}

static int start(void **state)
{
    (void)state;
    test_start(1024 * 1024);
    sa_sampler_init(INTERVAL, 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sample_rates)};

    return cmocka_run_group_tests(tests, start, NULL);
}
