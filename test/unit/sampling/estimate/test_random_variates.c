/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random draws against the distributions that they should have, by chi-square with fixed seeds, and
 * their bounds with extreme probabilities.
 *
 * The sum of chi-square over k cells has k-1 degrees of freedom, mean k-1 and deviation
 * sqrt(2(k-1)). The threshold (k-1) + 6 sqrt(2(k-1)) is exceeded by chance once in 10^5 or less for
 * the numbers of cells here (k >= 4; the right tail is heavier than the normal one). A cell of less
 * than 20 expected draws is joined with the next.
 */
#include "sampling/estimate/random_variates.h"

#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <math.h>
#include <string.h>

#define DRAWS 200000

static struct sa_rate rate_of(double p, double bytes)
{
    struct sa_rate r = {.p = p, .interval = 1};

    if (p < 1) {
        r.log_fail = log1p(-p);
        r.interval = -1 / expm1(r.log_fail / bytes);
    }
    return r;
}

struct cells {
    double chi, expected, seen;
    int count;
};

static void cell_add(struct cells *c, double expected, double seen, bool last)
{
    double d;

    c->expected += expected;
    c->seen += seen;
    if (c->expected < 20 && !last)
        return;
    d = c->seen - c->expected;
    if (c->expected > 0)
        c->chi += d * d / c->expected;
    else
        assert_true(c->seen == 0);
    c->count++;
    c->expected = c->seen = 0;
}

static void assert_fits(const struct cells *c, const char *what, double p)
{
    double freedom = c->count - 1;

    assert_true(c->count >= 4);
    if (!(c->chi <= freedom + 6 * sqrt(2 * freedom)))
        fail_msg("%s at p = %g: chi-square %g in %d cells", what, p, c->chi, c->count);
}

/* Cells that end where 1/30, 2/30, ... of all draws are expected to be below. */
static void check_failures(double p)
{
    static uint32_t edge[31], seen[31];
    struct sa_rate rate = rate_of(p, 16);
    uint64_t rng = 1;
    struct cells c = {0};
    double before = 0;
    int n = 0;

    memset(seen, 0, sizeof(seen));
    for (int i = 1; i <= 30; i++) { /* edge[n]: last number of cell n */
        double at = i < 30 ? floor(log1p(-i / 30.0) / log1p(-p)) : UINT32_MAX;

        if (n == 0 || at > edge[n - 1])
            edge[n++] = (uint32_t)at;
    }
    for (int i = 0; i < DRAWS; i++) {
        uint32_t f = sa_variate_failures(&rng, &rate, UINT32_MAX);
        int at = 0;

        while (f > edge[at])
            at++;
        seen[at]++;
    }
    for (int i = 0; i < n; i++) {
        double below = i < n - 1 ? -expm1((edge[i] + 1.0) * log1p(-p)) : 1;

        cell_add(&c, (below - before) * DRAWS, seen[i], i == n - 1);
        before = below;
    }
    assert_fits(&c, "failures", p);
}

static void test_variates_failures_are_geometric(void **state)
{
    static const double p[] = {0.7, 0.5, 0.1, 0.011, 1e-3, 7.6e-6, 1e-8};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(p); i++)
        check_failures(p[i]);
}

/* At a limit: as often as so many failures in a row, and nothing in between is lost. 5 sigma. */
static void test_variates_failures_stop_at_the_maximum(void **state)
{
    static const struct {
        double p;
        uint32_t max;
    } c[] = {{0.01, 16}, {0.01, 100}, {1e-4, 32767}, {0.5, 3}, {1e-12, 32767}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(c); i++) {
        struct sa_rate rate = rate_of(c[i].p, 16);
        double all = exp(c[i].max * log1p(-c[i].p)), seen = 0;
        uint64_t rng = 2;

        for (int k = 0; k < DRAWS; k++) {
            uint32_t f = sa_variate_failures(&rng, &rate, c[i].max);

            assert_true(f <= c[i].max);
            seen += f == c[i].max;
        }
        assert_true(fabs(seen - all * DRAWS) <= 5 * sqrt(all * (1 - all) * DRAWS) + 1e-6);
    }
}

static void test_variates_trials_succeed_with_p(void **state)
{
    static const double p[] = {0, 1e-5, 0.01, 0.37, 0.99, 1};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(p); i++) {
        uint64_t rng = 3;
        double won = 0;

        for (int k = 0; k < DRAWS; k++)
            won += sa_variate_bernoulli(&rng, p[i]);
        assert_true(fabs(won - p[i] * DRAWS) <= 5 * sqrt(p[i] * (1 - p[i]) * DRAWS));
    }
}

/* (interval, bytes) of sampled blocks: from one byte to the largest that is not certain. */
static const struct {
    double interval, bytes;
} blocks[] = {{2, 6},        {3, 5},           {100, 16},       {100, 460},
              {4096, 16384}, {524288, 131072}, {2097152, 4096}, {2097152, 8388608}};

/* The first byte that succeeded, given that one did, is geometric and cut at the end of the
 * block. */
static void test_variates_offsets_are_truncated_geometric(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        double bytes = blocks[i].bytes, fail = log1p(-1 / blocks[i].interval);
        struct sa_rate rate = rate_of(-expm1(bytes * fail), bytes);
        int n = bytes < 40 ? (int)bytes : 40;
        double seen[40] = {0}, before = 0;
        struct cells c = {0};
        uint64_t rng = 4;

        for (int k = 0; k < DRAWS; k++) {
            double f = sa_variate_offset(sa_rng_next(&rng), &rate, bytes);

            assert_true(f >= 1 && f <= bytes && f == floor(f));
            seen[(int)((f - 1) * n / bytes)]++;
        }
        for (int k = 0; k < n; k++) { /* cell k: offsets f with (f-1) n < (k+1) bytes */
            double below = -expm1(ceil((k + 1) * bytes / n) * fail) / rate.p;

            cell_add(&c, (below - before) * DRAWS, seen[k], k == n - 1);
            before = below;
        }
        assert_fits(&c, "offset", rate.p);
    }
}

/* Together with the offset: the bytes that succeeded are binomial, given that there is one. */
static void test_variates_hits_are_binomial(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        double bytes = blocks[i].bytes, fail = log1p(-1 / blocks[i].interval);
        struct sa_rate rate = rate_of(-expm1(bytes * fail), bytes);
        double seen[64] = {0}, q = 1 / blocks[i].interval, left = 1;
        double point = exp(bytes * fail) * bytes * q / (1 - q); /* of 1 success */
        struct cells c = {0};
        uint64_t rng = 5;

        for (int k = 0; k < DRAWS; k++) {
            double offset = sa_variate_offset(sa_rng_next(&rng), &rate, bytes);
            double hits = sa_variate_hits(&rng, &rate, bytes, offset);

            assert_true(hits >= 1 && hits <= bytes - offset + 1 && hits == floor(hits));
            seen[hits < 63 ? (int)hits : 63]++;
        }
        for (int k = 1; k < 64; k++) {
            double share = point / rate.p;

            cell_add(&c, (k < 63 ? share : left) * DRAWS, seen[k], k == 63 || k == bytes);
            left -= share;
            point *= (bytes - k) / (k + 1) * q / (1 - q);
            if (k == bytes)
                break;
        }
        if (c.count >= 4) /* else blocks are so small that a second success is rare */
            assert_fits(&c, "hits", rate.p);
        else
            assert_true(c.chi < 3 + 6 * sqrt(6));
    }
}

/*
 * What the estimators build on: the mean of T + a - f, and that of T times the successes, is a / p.
 * The deviation is taken from the draws; 5 of it over sqrt(n).
 */
static void test_variates_estimators_are_unbiased(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
        double a = blocks[i].bytes, t = blocks[i].interval, p = -expm1(a * log1p(-1 / t));
        struct sa_rate rate = rate_of(p, a);
        double sum[2] = {0, 0}, squares[2] = {0, 0};
        uint64_t rng = 6;

        for (int k = 0; k < DRAWS; k++) {
            double offset = sa_variate_offset(sa_rng_next(&rng), &rate, a);
            double value[2] = {t + a - offset, t * sa_variate_hits(&rng, &rate, a, offset)};

            for (int e = 0; e < 2; e++) {
                sum[e] += value[e] - a / p;
                squares[e] += (value[e] - a / p) * (value[e] - a / p);
            }
        }
        for (int e = 0; e < 2; e++)
            assert_true(fabs(sum[e]) <= 5 * sqrt(squares[e]) + 1e-9 * DRAWS * a / p);
    }
}

static void test_variates_bounds_hold_with_extreme_rates(void **state)
{
    static const double p[] = {1e-300, 1e-18, 1e-9, 0.5, 0.99};
    static const double sizes[] = {1, 2, 16, 4096, 1e9, 1e17};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(p); i++) {
        for (size_t j = 0; j < TEST_COUNT(sizes); j++) {
            struct sa_rate rate = rate_of(p[i], sizes[j]);
            uint64_t rng = 7;

            for (int k = 0; k < 2000; k++) {
                double offset = sa_variate_offset(sa_rng_next(&rng), &rate, sizes[j]);
                double hits = sa_variate_hits(&rng, &rate, sizes[j], offset);

                assert_true(offset >= 1 && offset <= sizes[j]);
                assert_true(hits >= 1 && hits <= sizes[j] - offset + 1);
                assert_true(sa_variate_failures(&rng, &rate, 0) == 0);
                assert_in_range(sa_variate_failures(&rng, &rate, 32767), 0, 32767);
            }
        }
    }
}

static void test_variates_certain_and_never(void **state)
{
    struct sa_rate certain = {.p = 1, .interval = 1}, never = {.p = 0, .interval = 1};
    uint64_t rng = 8;

    (void)state;
    for (int k = 0; k < 1000; k++) {
        assert_int_equal(sa_variate_failures(&rng, &certain, 100), 0);
        assert_int_equal(sa_variate_failures(&rng, &never, 100), 100);
        assert_true(sa_variate_offset(sa_rng_next(&rng), &certain, 48) == 1);
        assert_true(sa_variate_hits(&rng, &certain, 48, 1) == 48);
        assert_true(sa_variate_bernoulli(&rng, 1));
        assert_false(sa_variate_bernoulli(&rng, 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variates_failures_are_geometric),
        cmocka_unit_test(test_variates_failures_stop_at_the_maximum),
        cmocka_unit_test(test_variates_trials_succeed_with_p),
        cmocka_unit_test(test_variates_offsets_are_truncated_geometric),
        cmocka_unit_test(test_variates_hits_are_binomial),
        cmocka_unit_test(test_variates_estimators_are_unbiased),
        cmocka_unit_test(test_variates_bounds_hold_with_extreme_rates),
        cmocka_unit_test(test_variates_certain_and_never),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
