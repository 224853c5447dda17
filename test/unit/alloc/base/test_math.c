/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of real numbers against libm's, over all of their range: relative error below
 * 1e-14. */
#include "alloc/base/math.h"

#include "alloc/base/rng.h"
#include "test/support/cmocka.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

#define TOLERANCE 1e-14
#define DRAWS     200000

static uint64_t seed;

static double uniform(void)
{
    return (double)(sa_rng_next(&seed) >> 11) * 0x1p-53;
}

/* From low to high, evenly in the logarithm. */
static double spread(double low, double high)
{
    return exp(log(low) + uniform() * (log(high) - log(low)));
}

/* libm's result in long double, so that its own error does not count; floor: errors below do not
 * count. */
static void check(const char *name, double x, double got, long double want, double min)
{
    long double error = fabsl((long double)got - want);

    if (!(error <= TOLERANCE * fabsl(want) + min)) {
        fprintf(stderr, "%s(%.17g) is %.17g, not %.17Lg\n", name, x, got, want);
        assert_true(0);
    }
}

static int setup(void **state)
{
    (void)state;
    seed = 20240607;
    return 0;
}

/* From the least denormal to the largest number, densely around 1 where the result vanishes. */
static void test_log_everywhere(void **state)
{
    static const double special[] = {
        0x1p-1074,           0x1p-1023, DBL_MIN, 0x1p-1, 1, 2, 0x1.6a09e667f3bccp-1,
        0x1.6a09e667f3bcdp0, 10,        DBL_MAX,
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(special); i++)
        check("log", special[i], sa_log(special[i]), logl(special[i]), 0);
    for (int i = 0; i < DRAWS; i++) {
        double x = spread(1e-300, 1e300), d = spread(1e-16, 1);

        check("log", x, sa_log(x), logl(x), 0);
        x = x * 1e-300 * 1e-20; /* many are denormal */
        if (x > 0)
            check("log", x, sa_log(x), logl(x), 0);
        check("log", 1 + d, sa_log(1 + d), logl(1 + d), 0);
        check("log", 1 - d / 2, sa_log(1 - d / 2), logl(1 - d / 2), 0);
        x = uniform() * 4;
        if (x > 0)
            check("log", x, sa_log(x), logl(x), 0);
    }
    assert_true(sa_log(1) == 0);
    assert_true(sa_log(0) == -INFINITY);
    assert_true(sa_log(INFINITY) == INFINITY);
}

static void test_log1p_everywhere(void **state)
{
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = spread(1e-307, 1e307), d = spread(1e-16, 1);

        check("log1p", x, sa_log1p(x), log1pl(x), 0);
        check("log1p", d, sa_log1p(d), log1pl(d), 0);
        check("log1p", d - 1, sa_log1p(d - 1), log1pl(d - 1), 0);
        x = -spread(1e-307, 0.999);
        check("log1p", x, sa_log1p(x), log1pl(x), 0);
    }
    assert_true(sa_log1p(0) == 0);
    assert_true(sa_log1p(0x1p-1074) == 0x1p-1074);
}

/* Denormal results are right to half of their last bit and a little. */
static void test_exp_everywhere(void **state)
{
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = -745.2 + uniform() * (745.2 + 709.78);

        check("exp", x, sa_exp(x), expl(x), 0x1.1p-1075);
        x = (uniform() < 0.5 ? -1 : 1) * spread(1e-300, 2);
        check("exp", x, sa_exp(x), expl(x), 0);
    }
    assert_true(sa_exp(0) == 1);
    assert_true(sa_exp(-INFINITY) == 0);
    assert_true(sa_exp(-1e9) == 0);
    assert_true(sa_exp(INFINITY) == INFINITY);
    assert_true(sa_exp(710) == INFINITY);
}

static void test_expm1_everywhere(void **state)
{
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = -60 + uniform() * (60 + 709.78);

        check("expm1", x, sa_expm1(x), expm1l(x), 0);
        x = (uniform() < 0.5 ? -1 : 1) * spread(1e-307, 3);
        check("expm1", x, sa_expm1(x), expm1l(x), 0);
    }
    assert_true(sa_expm1(0) == 0);
    assert_true(sa_expm1(-INFINITY) == -1);
    assert_true(sa_expm1(INFINITY) == INFINITY);
}

/* Also next to 1 and 2, where the result vanishes. */
static void test_log_gamma_everywhere(void **state)
{
    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x = spread(1e-300, 1e300), d = spread(1e-15, 0.5);

        check("log_gamma", x, sa_log_gamma(x), lgammal(x), 0);
        x = uniform() * 20 + 1e-10;
        check("log_gamma", x, sa_log_gamma(x), lgammal(x), 0);
        check("log_gamma", 1 + d, sa_log_gamma(1 + d), lgammal(1 + d), 0);
        check("log_gamma", 1 - d, sa_log_gamma(1 - d), lgammal(1 - d), 0);
        check("log_gamma", 2 + d, sa_log_gamma(2 + d), lgammal(2 + d), 0);
        check("log_gamma", 2 - d, sa_log_gamma(2 - d), lgammal(2 - d), 0);
    }
    assert_true(sa_log_gamma(1) == 0);
    assert_true(sa_log_gamma(2) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_log_everywhere, setup),
        cmocka_unit_test_setup(test_log1p_everywhere, setup),
        cmocka_unit_test_setup(test_exp_everywhere, setup),
        cmocka_unit_test_setup(test_expm1_everywhere, setup),
        cmocka_unit_test_setup(test_log_gamma_everywhere, setup),
    };

    return cmocka_run_group_tests_name("real", tests, NULL, NULL);
}
