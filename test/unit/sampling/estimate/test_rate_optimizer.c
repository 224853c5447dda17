/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates per size class: they spend what the default spends, obey their limits, and no change of any
 * two of them that spends the same has less variance. The last is the whole proof, as the variance
 * is convex.
 */
#include "sampling/estimate/rate_optimizer.h"

#include "alloc/base/rng.h"
#include "test/support/cmocka.h"

#include <math.h>

#define CLASSES 60
#define FLOOR   0.1

static uint64_t seed;

static double uniform(void)
{
    return (double)((sa_rng_next(&seed) >> 11) + 1) * 0x1p-53;
}

/* A heap of random sizes, turnover and live blocks: some classes idle, some with nothing live. */
static void random_classes(struct sa_rate_optimizer_class *c, double interval)
{
    for (int i = 0; i < CLASSES; i++) {
        c[i].size = floor(16 * exp(uniform() * 9.5));
        c[i].allocations = uniform() < 0.1 ? 0 : floor(exp(uniform() * 14));
        c[i].live = uniform() < 0.2 ? 0 : floor(c[i].allocations * pow(uniform(), 3));
        c[i].p_default = -expm1(c[i].size * log1p(-1 / interval));
        if (c[i].p_default > 0.99)
            c[i].p_default = 1;
        c[i].p = -1;
    }
}

static double spent(const struct sa_rate_optimizer_class *c, int by_default)
{
    double sum = 0;

    for (int i = 0; i < CLASSES; i++)
        sum += c[i].allocations * (by_default ? c[i].p_default : c[i].p);
    return sum;
}

static double variance_of(const struct sa_rate_optimizer_class *c, double p)
{
    return c->live > 0 ? c->size * c->size * c->live * (1 - p) / p : 0;
}

static double variance(const struct sa_rate_optimizer_class *c, int by_default)
{
    double sum = 0;

    for (int i = 0; i < CLASSES; i++)
        sum += variance_of(&c[i], by_default ? c[i].p_default : c[i].p);
    return sum;
}

static int setup(void **state)
{
    (void)state;
    seed = 20240613;
    return 0;
}

static void test_rate_optimizer_spends_the_default_within_limits(void **state)
{
    struct sa_rate_optimizer_class c[CLASSES];

    (void)state;
    for (int round = 0; round < 300; round++) {
        random_classes(c, 1024 << round % 12);

        double ratio = sa_rate_optimizer_rates(c, CLASSES, FLOOR);

        /* With nothing uncertain left there is nothing to spend more on. */
        assert_true(spent(c, 0) <= spent(c, 1) * (1 + 1e-9));
        assert_true(spent(c, 0) >= spent(c, 1) * (1 - 1e-9) || variance(c, 0) == 0);
        for (int i = 0; i < CLASSES; i++) {
            assert_true(c[i].p >= FLOOR * c[i].p_default && c[i].p <= 1);
            if (c[i].allocations == 0)
                assert_true(c[i].p == c[i].p_default);
        }
        assert_true(ratio >= 1 - 1e-9);
        if (variance(c, 0) > 0)
            assert_true(fabs(ratio - variance(c, 1) / variance(c, 0)) <= 1e-9 * ratio);
    }
}

/* Moves a part of one class's samples to another class, for all pairs, as far as the limits
 * allow. */
static void test_rate_optimizer_cannot_be_improved(void **state)
{
    static const double parts[] = {1e-6, 1e-3, 0.1, 0.7};
    struct sa_rate_optimizer_class c[CLASSES];
    long moves = 0;

    (void)state;
    for (int round = 0; round < 60; round++) {
        random_classes(c, 1024 << round % 12);
        sa_rate_optimizer_rates(c, CLASSES, FLOOR);
        for (int i = 0; i < CLASSES; i++)
            for (int j = 0; j < CLASSES; j++)
                for (size_t k = 0; k < TEST_COUNT(parts); k++) {
                    if (i == j || c[i].allocations == 0 || c[j].allocations == 0)
                        continue;

                    double p = c[i].p * (1 - parts[k]);
                    double q = c[j].p + c[i].p * parts[k] * c[i].allocations / c[j].allocations;

                    if (p < FLOOR * c[i].p_default || q > 1)
                        continue;

                    double now = variance_of(&c[i], c[i].p) + variance_of(&c[j], c[j].p);
                    double then = variance_of(&c[i], p) + variance_of(&c[j], q);

                    assert_true(then >= now * (1 - 1e-9));
                    moves++;
                }
    }
    assert_true(moves > 100000);
}

/* A heap in which everything lives as long, and is small, is sampled in the same way as by
 * default. */
static void test_rate_optimizer_is_the_default_where_it_is_best(void **state)
{
    struct sa_rate_optimizer_class c[CLASSES];

    (void)state;
    for (int i = 0; i < CLASSES; i++)
        c[i] = (struct sa_rate_optimizer_class){.size = 16 * (i + 1),
                                                .allocations = 1000 * (i + 1),
                                                .live = 10 * (i + 1),
                                                .p_default = 16e-7 * (i + 1)};
    assert_true(fabs(sa_rate_optimizer_rates(c, CLASSES, FLOOR) - 1) < 1e-9);
    for (int i = 0; i < CLASSES; i++)
        assert_true(fabs(c[i].p / c[i].p_default - 1) < 1e-9);
}

static void test_rate_optimizer_of_nothing(void **state)
{
    struct sa_rate_optimizer_class none = {.size = 16, .p_default = 0.25}, dead = none, full = none;

    (void)state;
    assert_true(sa_rate_optimizer_rates(&none, 0, FLOOR) == 1);
    assert_true(sa_rate_optimizer_rates(&none, 1, FLOOR) == 1 && none.p == 0.25);
    dead.allocations = 100;
    assert_true(sa_rate_optimizer_rates(&dead, 1, FLOOR) == 1 && dead.p == 0.25);
    full.allocations = full.live = 100;
    full.p_default = 1;
    assert_true(sa_rate_optimizer_rates(&full, 1, FLOOR) == 1 && full.p == 1);
    full.p_default = 0; /* sampling is off */
    assert_true(sa_rate_optimizer_rates(&full, 1, FLOOR) == 1 && full.p == 0);

    /* One class lives, the other only costs: the layer goes to the latter, the rest to the
     * former. */
    struct sa_rate_optimizer_class two[] = {
        {.size = 64, .allocations = 1000, .live = 0, .p_default = 0.01},
        {.size = 64, .allocations = 1000, .live = 500, .p_default = 0.01},
    };

    assert_true(fabs(sa_rate_optimizer_rates(two, 2, FLOOR) - (99 / (1 / 0.019 - 1))) < 1e-6);
    assert_true(fabs(two[0].p - 0.001) < 1e-12 && fabs(two[1].p - 0.019) < 1e-12);

    /* What lives becomes certain, and the budget is not used up: nothing is left of the
     * variance. */
    two[1].allocations = two[1].live = 1;
    assert_true(sa_rate_optimizer_rates(two, 2, FLOOR) == INFINITY);
    assert_true(two[1].p == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_rate_optimizer_spends_the_default_within_limits, setup),
        cmocka_unit_test_setup(test_rate_optimizer_cannot_be_improved, setup),
        cmocka_unit_test(test_rate_optimizer_is_the_default_where_it_is_best),
        cmocka_unit_test(test_rate_optimizer_of_nothing),
    };

    return cmocka_run_group_tests_name("optimal", tests, NULL, NULL);
}
