/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binomial and negative binomial probabilities against sums computed otherwise, and the published
 * table of numbers of failed trials, to the integer.
 */
#include "sampling/estimate/negative_binomial.h"

#include "test/support/cmocka.h"

#include <math.h>
#include <stdio.h>

static void check_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want) + 1e-300)) {
        fprintf(stderr, "%.17g is not %.17g\n", got, want);
        assert_true(0);
    }
}

/*
 * The table in .NET's design document on randomised allocation sampling: for a number of samples,
 * the numbers of failed trials at 2.5 and 97.5 % when one trial in 102400 succeeds. It has the last
 * number whose probability is below the threshold.
 */
static void test_negative_binomial_reproduces_published_table(void **state)
{
    static const struct {
        int samples;
        double low, high;
    } row[] = {
        {1, 2591, 377738},
        {2, 24800, 570531},
        {3, 63349, 739802},
        {4, 111599, 897761},
        {5, 166241, 1048730},
        {6, 225469, 1194827},
        {7, 288185, 1337279},
        {8, 353666, 1476870},
        {9, 421407, 1614137},
        {10, 491039, 1749469},
        {20, 1250954, 3038270},
        {30, 2072639, 4264804},
        {40, 2926207, 5459335},
        {50, 3800118, 6633475},
        {100, 8331581, 12342053},
        {200, 17739679, 23413825},
        {300, 27341465, 34291862},
        {400, 37043463, 45069676},
        {500, 46809487, 55783459},
        {1000, 96149867, 108842093},
        {2000, 195919830, 213870137},
        {3000, 296301551, 318286418},
        {4000, 396999923, 422386047},
        {5000, 497900649, 526283322},
        {10000, 1004017229, 1044156743},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(row); i++) {
        double p = 1.0 / 102400, s = row[i].samples;

        assert_true(sa_negative_binomial_quantile(0.025, s, p) == row[i].low);
        assert_true(sa_negative_binomial_quantile(0.975, s, p) == row[i].high);
    }
}

/* The definition of the quantile, on both sides of it; also where nothing is below the
 * threshold. */
static void test_negative_binomial_quantile_is_the_last_below(void **state)
{
    static const double ps[] = {1e-6, 0.01, 0.3, 0.7, 0.99};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ps); i++)
        for (double s = 1; s < 300; s = s * 1.7)
            for (double level = 0.005; level < 1; level += 0.09) {
                double f = sa_negative_binomial_quantile(level, s, ps[i]);

                assert_true(f >= -1 && f == floor(f));
                assert_true(f < 0 || sa_negative_binomial(f, s, ps[i]) < level);
                assert_true(sa_negative_binomial(f + 1, s, ps[i]) >= level);
            }
}

/* Points of all binomial distributions with few trials, from Pascal's triangle; they sum to 1. */
static void test_negative_binomial_points_of_few_trials(void **state)
{
    static const double ps[] = {1e-9, 1e-3, 0.2, 0.5, 0.9, 0.999};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ps); i++)
        for (int n = 1; n < 60; n++) {
            long double ways = 1, p = ps[i], sum = 0;

            for (int k = 0; k <= n; k++) {
                long double want = ways * powl(p, k) * powl(1 - p, n - k);
                double got = sa_binomial_point(k, n, ps[i]);

                check_near(got, (double)want, 1e-13 * (1 + n));
                sum += got;
                ways = ways * (n - k) / (k + 1);
            }
            check_near((double)sum, 1, 1e-13);
        }
}

/* P(F <= f) against the sum of its points, each from the one before. */
static void test_negative_binomial_sums_of_points(void **state)
{
    static const double ps[] = {1e-4, 0.01, 0.5, 0.95};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(ps); i++)
        for (int s = 1; s <= 3000; s = s * 3 + 1) {
            double mean = s * (1 - ps[i]) / ps[i], end = mean + 3 * sqrt(mean / ps[i]);
            long double point = powl(ps[i], s), sum = point;
            int f = 0, next = 0;

            if (end > 1e6 || point < 1e-4000L)
                continue;
            for (;; f++) {
                if (f >= next) {
                    check_near(sa_negative_binomial(f, s, ps[i]), (double)sum, 1e-11);
                    next = f + 1 + (int)(end / 20);
                }
                if (f > end)
                    break;
                point *= (1 - (long double)ps[i]) * (s + f) / (f + 1);
                sum += point;
            }
        }
}

/* Relations that hold for real numbers of successes and failures, up to many. */
static void test_negative_binomial_at_fractions(void **state)
{
    (void)state;
    for (double s = 0.7; s < 2e6; s *= 3.1)
        for (double p = 1e-6; p < 0.995; p = p * 2.3 + 1e-3)
            for (double z = -3; z <= 3; z += 1.5) {
                double mean = s * (1 - p) / p, f = mean + z * sqrt(mean / p);

                if (f < 0.1)
                    continue;

                /* I_p(s, f+1) - I_p(s+1, f) is the chance of s of s+f. */
                double point = sa_binomial_point(s, s + f, p);
                double more = sa_negative_binomial(f - 1 > 0 ? f - 1 : 0, s + 1, p);
                double all = sa_negative_binomial(f, s, p);

                if (f >= 1)
                    assert_true(fabs(all - more - point) < 1e-11);
                check_near(sa_negative_binomial_at(f, s, p, point), all, 1e-15);
                /* Points whose numbers of successes differ by one. */
                check_near(sa_binomial_point(s + 1, s + f + 1, p),
                           point * p * (s + f + 1) / (s + 1), 1e-9);
            }
}

static void test_negative_binomial_normal_quantile(void **state)
{
    (void)state;
    for (double p = 1e-12; p < 1; p = p < 0.01 ? p * 3 : p + 0.007) {
        double z = sa_normal_quantile(p);

        check_near(erfc(-z / sqrt(2)) / 2, p, 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_negative_binomial_reproduces_published_table),
        cmocka_unit_test(test_negative_binomial_quantile_is_the_last_below),
        cmocka_unit_test(test_negative_binomial_points_of_few_trials),
        cmocka_unit_test(test_negative_binomial_sums_of_points),
        cmocka_unit_test(test_negative_binomial_at_fractions),
        cmocka_unit_test(test_negative_binomial_normal_quantile),
    };

    return cmocka_run_group_tests_name("beta", tests, NULL, NULL);
}
