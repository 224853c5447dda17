/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intervals of sets in which blocks differ: in size, in how likely they are sampled, in what is
 * summed up of them; and of sets of which nothing was sampled. Simulations have fixed seeds, and
 * allow for their own error.
 */
#include "sampling/estimate/estimate.h"
#include "sampling/estimate/negative_binomial.h"
#include "test/support/cmocka.h"
#include "test/support/estimate_blocks.h"

#include <math.h>
#include <string.h>

#define ESTIMATORS 4

static int setup(void **state)
{
    (void)state;
    rng = 20240611;
    return 0;
}

/* P(at most k of n, each with chance 0.95): so improbable are so few intervals that are right. */
static double chance_of_so_few(int k, int n)
{
    double sum = 0;

    for (int i = k; i >= 0 && i > k - 200; i--)
        sum += sa_binomial_point(i, n, 0.95);
    return sum;
}

/* With other seeds one of the checks of a whole test would fail once in 10000 times, if coverage is
 * 95 %. */
#define IMPROBABLE(checks) (1e-4 / (checks))

/*
 * Coverage of the 95 % interval in bytes of mixtures of sizes, simulated. RUNS runs measure a
 * coverage of 0.95 with standard error sqrt(0.95 0.05 / RUNS); 93 and 98 % must be met to 3 of
 * them. That of the number of blocks is not below 95 %, by an exact binomial test: it allows for
 * blocks of the smallest size of which there is no sample, and so may be more. These are all runs,
 * also those without a sample, but for bytes.
 */
static void test_estimate_coverage_of_mixtures(void **state)
{
    static const double expected[] = {1, 2, 3, 5, 10, 30, 100, 1000};

    (void)state;
    for (int mixture = 0; mixture < 3; mixture++)
        for (size_t j = 0; j < TEST_COUNT(expected); j++) {
            const int runs = expected[j] > 500 ? 1000 : 3000;
            const double slack = 3 * sqrt(0.95 * 0.05 / runs);
            const struct sa_unseen unseen = {.bytes = T, .blocks = 1 / probability(16)};
            struct blocks b[24];
            double mean = 0, count = 0, bytes = 0;
            size_t n = 0;
            int any = 0, bytes_covered = 0, count_covered = 0;

            /* Equal bytes of each size; fewer of large ones; up to 1 MiB, that is p = 0.86. */
            for (double size = 16; size <= (mixture == 2 ? 1048576 : 65536); size *= 2)
                b[n++] = (struct blocks){size, mixture == 1 ? pow(size, -1.5) : 1 / size,
                                         probability(size)};
            for (size_t i = 0; i < n; i++)
                mean += b[i].count * b[i].p;
            for (size_t i = 0; i < n; i++) {
                b[i].count = floor(b[i].count * expected[j] / mean + sa_variate_uniform(&rng));
                count += b[i].count;
                bytes += b[i].count * b[i].size;
            }
            for (int run = 0; run < runs; run++) {
                struct sa_sums sums = {0};
                struct salloc_estimate x;

                uint64_t samples = take_all(b, n, &sums);

                sa_estimate(&sums, &unseen, SALLOC_ESTIMATE_WEIGHTED, 0.95, &x);
                count_covered += x.count_low <= count && count <= x.count_high;
                if (!samples)
                    continue;
                any++;
                bytes_covered += x.bytes_low <= bytes && bytes <= x.bytes_high;
            }

            double of_bytes = (double)bytes_covered / any, of_count = (double)count_covered / runs;

            print_message("# mixture %d, %g samples: %.3f of bytes, %.3f of blocks\n", mixture,
                          expected[j], of_bytes, of_count);
            assert_true(of_bytes >= 0.93 - slack && of_bytes <= 0.98 + slack);
            assert_true(chance_of_so_few(count_covered, runs) >
                        IMPROBABLE(3 * TEST_COUNT(expected)));
        }
}

/*
 * The same where each size has a rate of its own, also 30 times off the default one: bytes and
 * blocks are not covered less than in 95 % of runs, whatever part of them is in sizes that are
 * sampled rarely. Rates and numbers are random.
 */
static void test_estimate_coverage_with_rates_of_sizes(void **state)
{
    enum { SIZES = 10, RUNS = 300, SETS = 40 };
    int bytes_min = RUNS, count_min = RUNS;

    (void)state;
    for (int set = 0; set < SETS; set++) {
        double count = 0, bytes = 0, intervals[SIZES], mean = 0;
        double expected = exp(6 * sa_variate_uniform(&rng) - 1);
        struct sa_unseen unseen = {0};
        struct blocks b[SIZES];
        int bytes_covered = 0, count_covered = 0;

        for (int i = 0; i < SIZES; i++) {
            b[i].size = 16 << i;
            intervals[i] = T * exp(6.8 * (sa_variate_uniform(&rng) - 0.5));
            b[i].p = -expm1(b[i].size * log1p(-1 / intervals[i]));
            b[i].count = exp(6 * sa_variate_uniform(&rng)) / b[i].size;
            mean += b[i].count * b[i].p;
            unseen.bytes = fmax(unseen.bytes, intervals[i]);
            unseen.blocks = fmax(unseen.blocks, 1 / b[i].p);
        }
        for (int i = 0; i < SIZES; i++) {
            b[i].count = floor(b[i].count * expected / mean + sa_variate_uniform(&rng));
            count += b[i].count;
            bytes += b[i].count * b[i].size;
        }
        for (int run = 0; run < RUNS; run++) {
            struct sa_sums sums = {0};
            struct salloc_estimate x;

            for (int i = 0; i < SIZES; i++) {
                struct sa_rate rate = {.log_fail = log1p(-b[i].p)};
                struct sa_group group = {
                    .p = b[i].p, .interval = intervals[i], .allocated = b[i].size};

                for (double at = 0; at <= b[i].count; group.samples++)
                    at += floor(log(sa_variate_uniform(&rng)) / rate.log_fail) + 1;
                group.samples--;
                sa_sums_add(&sums, &group);
            }
            sa_estimate(&sums, &unseen, SALLOC_ESTIMATE_WEIGHTED, 0.95, &x);
            bytes_covered += x.bytes_low <= bytes && bytes <= x.bytes_high;
            count_covered += x.count_low <= count && count <= x.count_high;
        }
        bytes_min = bytes_covered < bytes_min ? bytes_covered : bytes_min;
        count_min = count_covered < count_min ? count_covered : count_min;
    }
    print_message("# least of %d sets: %.3f of bytes, %.3f of blocks\n", SETS,
                  (double)bytes_min / RUNS, (double)count_min / RUNS);
    assert_true(chance_of_so_few(bytes_min, RUNS) > IMPROBABLE(2 * SETS));
    assert_true(chance_of_so_few(count_min, RUNS) > IMPROBABLE(2 * SETS));
}

/* What a block has of something: none, all of its bytes, or any part of them. */
static double part_of(double size)
{
    double u = sa_variate_uniform(&rng);

    return u < 0.3 ? 0 : u < 0.5 ? size : size * sa_variate_uniform(&rng);
}

/*
 * Intervals of weighted sums of a value that each block has its own of, as its resident bytes: not
 * below 95 % of runs, from no sample to many. Sizes up to 1 MiB, which is p = 0.86; those of the
 * large ones matter most.
 */
static void test_estimate_coverage_of_values(void **state)
{
    enum { SETS = 24, RUNS = 200 };
    const struct sa_unseen unseen = {.bytes = T};
    static double value[1 << 16];
    int min = RUNS, wrong = 0;

    (void)state;
    for (int set = 0; set < SETS; set++) {
        double expected = exp(5 * sa_variate_uniform(&rng) - 0.5), truth = 0;
        double size = 4096 << set % 9, p = probability(size);
        size_t n = (size_t)(expected / p) + 1, small = (size_t)(expected / probability(4096) / 2);
        int covered = 0;

        for (size_t i = 0; i < n + small; i++)
            truth += value[i] = part_of(i < n ? size : 4096);
        for (int run = 0; run < RUNS; run++) {
            struct sa_value_sums sums = {0};
            struct salloc_interval x;

            for (size_t i = 0; i < n + small; i++) {
                double chance = i < n ? p : probability(4096);

                if (sa_variate_uniform(&rng) <= chance)
                    sa_value_sums_add(&sums, chance, value[i]);
            }
            sa_estimate_value(&sums, &unseen, 0.95, &x);
            assert_true(x.low <= x.value * (1 + 1e-9) && x.value <= x.high * (1 + 1e-9));
            covered += x.low <= truth * (1 + 1e-12) && truth <= x.high;
        }
        wrong += RUNS - covered;
        min = covered < min ? covered : min;
    }
    print_message("# least of %d sets: %.3f, all %.3f\n", SETS, (double)min / RUNS,
                  1 - (double)wrong / SETS / RUNS);
    assert_true(chance_of_so_few(min, RUNS) > IMPROBABLE(SETS));
}

/* No samples, samples without any of it, certain ones; and whose unseen ones may be of any size. */
static void test_estimate_values_of_few(void **state)
{
    struct sa_unseen unseen = {.bytes = T};
    struct sa_value_sums sums = {0};
    struct salloc_interval x;

    (void)state;
    for (int i = 0; i < 3; i++) {
        sa_estimate_value(&sums, &unseen, 0.95, &x);
        assert_true(x.samples == (unsigned)i && x.value == 0 && x.low == 0);
        assert_true(fabs(x.high / sa_estimate_unseen(T, 0.95) - 1) < 1e-6);
        sa_value_sums_add(&sums, 0.5, 0);
    }
    sums = (struct sa_value_sums){0};
    sa_value_sums_add(&sums, 1, 700);
    sa_estimate_value(&sums, &unseen, 0.95, &x);
    assert_true(x.value == 700 && x.low == 700);
    assert_true(fabs(x.high - 700 - sa_estimate_unseen(T, 0.95)) < 1);
    unseen.bytes = 0;
    sa_estimate_value(&sums, &unseen, 0.95, &x);
    assert_true(x.high == 700);
    unseen.bytes = INFINITY;
    sa_estimate_value(&sums, &unseen, 0.95, &x);
    assert_true(x.high == INFINITY);
}

/* Coverage of the 95 % interval of what blocks hold up beside them, which is bounded by their spans
 * and not by them. */
static double coverage_of_waste(double expected, int sparse)
{
    enum { RUNS = 400, OBJECTS = 64 };
    static double waste[1 << 18];
    const double size = 1024, p = probability(size);
    const struct sa_unseen unseen = {.bytes = size * (OBJECTS - 1) / p};
    size_t n = (size_t)(expected / p);
    double truth = 0;
    int covered = 0;

    /* Spans with so many live objects of 64; each has its part of the free ones. */
    for (size_t i = 0; i < n;) {
        int live =
            sparse ? 1 + (int)(OBJECTS * pow(sa_variate_uniform(&rng), 4)) : 8 + (int)(i % 16);

        for (int k = 0; k < live && i < n; k++, i++)
            truth += waste[i] = size * (OBJECTS - live) / live;
    }
    for (int run = 0; run < RUNS; run++) {
        struct sa_value_sums sums = {0};
        struct salloc_interval x;

        for (size_t i = 0; i < n; i++)
            if (sa_variate_uniform(&rng) <= p)
                sa_value_sums_add(&sums, p, waste[i]);

        sa_estimate_value(&sums, &unseen, 0.95, &x);
        covered += x.low <= truth && truth <= x.high;
    }
    return (double)covered / RUNS;
}

static void test_estimate_coverage_of_waste(void **state)
{
    static const double expected[] = {1, 3, 10, 30, 100, 400};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(expected); i++) {
        double even = coverage_of_waste(expected[i], 0), sparse = coverage_of_waste(expected[i], 1);

        print_message("# %g samples: %.3f, of some nearly empty spans %.3f\n", expected[i], even,
                      sparse);
        assert_true(chance_of_so_few((int)(400 * even + .5), 400) > IMPROBABLE(12));
        assert_true(chance_of_so_few((int)(400 * sparse + .5), 400) > IMPROBABLE(12));
    }
}

/* The same of mean lives: all alike, exponential, and from nanoseconds to hours; n of them
 * sampled. */
static double coverage_of_lives(int n, int kind)
{
    enum { RUNS = 2000 };
    double mean = kind == 2 ? exp(2) : 1; /* of exp(2 z) with a normal z: exp(2^2 / 2) */
    int covered = 0;

    for (int run = 0; run < RUNS; run++) {
        struct sa_life_sums sums = {0};
        struct salloc_interval x;

        for (int i = 0; i < n; i++) {
            double u = sa_variate_uniform(&rng), life = 0.5 + u;

            if (kind == 1)
                life = -log(u);
            else if (kind == 2)
                life = exp(2 * sa_normal_quantile(u));
            sa_life_sums_add(&sums, 1e-3, 1, life, life * life);
        }
        sa_estimate_life(&sums, 0.95, &x);
        assert_true(x.low <= x.value && x.value <= x.high);
        covered += x.low <= mean && mean <= x.high;
    }
    return (double)covered / RUNS;
}

static void test_estimate_coverage_of_lives(void **state)
{
    static const int samples[] = {4, 5, 10, 30, 100};
    struct sa_life_sums sums = {0};
    struct salloc_interval x;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(samples); i++) {
        double c[3];

        for (int kind = 0; kind < 3; kind++)
            c[kind] = coverage_of_lives(samples[i], kind);
        print_message("# %d samples: even %.3f, exponential %.3f, over decades %.3f\n", samples[i],
                      c[0], c[1], c[2]);
        assert_true(c[0] > 0.93 && c[1] > 0.9 && c[2] > 0.6);
    }
    sa_estimate_life(&sums, 0.95, &x);
    assert_true(x.value == 0 && x.low == 0 && x.high == INFINITY);
    sa_life_sums_add(&sums, 0.5, 3, 30, 300);
    sa_estimate_life(&sums, 0.95, &x);
    assert_true(x.samples == 3 && x.value == 10 && x.low == 0 && x.high == INFINITY);
    sums = (struct sa_life_sums){0};
    sa_life_sums_add(&sums, 1, 2, 30, 500);
    sa_estimate_life(&sums, 0.95, &x);
    assert_true(x.value == 15 && x.low == 15 && x.high == 15);
}

/*
 * Upper ends with what may be unseen: without samples exactly the number that is missed with a
 * chance of 2.5 %, more for each sample, and not below the end for blocks that are all alike. What
 * is older than a change adds what it can be, or is bounded by its own rates, whichever is less.
 */
static void test_estimate_of_the_unseen(void **state)
{
    struct sa_unseen all = {.bytes = T, .blocks = T / 8};
    struct sa_group group = {
        .p = -expm1(64 * log1p(-1 / T)), .interval = T, .allocated = 64, .samples = 1};
    struct sa_sums sums = {0};
    struct salloc_estimate x, alike;
    double last = 0;

    (void)state;
    for (int e = 0; e < ESTIMATORS; e++) {
        sa_estimate(&sums, &all, (enum salloc_estimator)e, 0.95, &x);
        assert_true(x.samples == 0 && x.count == 0 && x.bytes == 0);
        assert_true(x.count_low == 0 && x.bytes_low == 0);
        assert_true(fabs(x.bytes_high / sa_estimate_unseen(T, 0.95) - 1) < 1e-6);
        assert_true(fabs(x.count_high / sa_estimate_unseen(T / 8, 0.95) - 1) < 1e-6);
    }
    for (int i = 0; i < 300; i++) {
        sa_sums_add(&sums, &group);
        sa_estimate(&sums, NULL, SALLOC_ESTIMATE_WEIGHTED, 0.95, &alike);
        sa_estimate(&sums, &all, SALLOC_ESTIMATE_WEIGHTED, 0.95, &x);
        assert_true(x.bytes_high == alike.bytes_high && x.bytes_low == alike.bytes_low);
        assert_true(x.count_high > alike.count_high && x.count_low == alike.count_low);
        assert_true(x.count_high > last);
        last = x.count_high;
    }

    sums = (struct sa_sums){0};
    all = (struct sa_unseen){.bytes = T,
                             .blocks = T / 8,
                             .past_bytes_weight = 4 * T,
                             .past_blocks_weight = INFINITY,
                             .past_bytes = 1e5,
                             .past_blocks = 1e4};
    sa_estimate(&sums, &all, SALLOC_ESTIMATE_WEIGHTED, 0.95, &x);
    assert_true(fabs(x.bytes_high - sa_estimate_unseen(T, 0.95) - 1e5) < 10);
    assert_true(fabs(x.count_high - sa_estimate_unseen(T / 8, 0.95) - 1e4) < 10);
    all.past_bytes = all.past_blocks = INFINITY;
    sa_estimate(&sums, &all, SALLOC_ESTIMATE_WEIGHTED, 0.95, &x);
    assert_true(fabs(x.bytes_high / sa_estimate_unseen(4 * T, 0.95) - 1) < 1e-6);
    assert_true(x.count_high == INFINITY);
    all = (struct sa_unseen){.bytes = INFINITY, .blocks = INFINITY};
    sa_sums_add(&sums, &group);
    sa_estimate(&sums, &all, SALLOC_ESTIMATE_WEIGHTED, 0.95, &x);
    assert_true(x.bytes_high == INFINITY && x.count_high == INFINITY && x.bytes_low >= 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_estimate_coverage_of_mixtures, setup),
        cmocka_unit_test_setup(test_estimate_coverage_with_rates_of_sizes, setup),
        cmocka_unit_test(test_estimate_of_the_unseen),
        cmocka_unit_test_setup(test_estimate_coverage_of_values, setup),
        cmocka_unit_test(test_estimate_values_of_few),
        cmocka_unit_test_setup(test_estimate_coverage_of_waste, setup),
        cmocka_unit_test_setup(test_estimate_coverage_of_lives, setup),
    };

    return cmocka_run_group_tests_name("estimate_sets", tests, NULL, NULL);
}
