/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers behind the figures and the table of coverage in doc/sampling.md, from the library's
 * own functions. usage: salloc-figures points (lines of figure, curve, x, y, separated by tabs) |
 * coverage (a table)
 */
#include "alloc/base/math.h"
#include "sampling/estimate/negative_binomial.h"
#include "sampling/estimate/estimate.h"
#include "sampling/estimate/rates.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define KIB 1024.0
#define MIB (1024 * KIB)

/* Size of the blocks that a larger amount of memory is taken to consist of. */
#define SMALL 64.0

static const struct {
    const char *name;
    double bytes;
} intervals[] = {{"T = 32 KiB", 32 * KIB}, {"T = 512 KiB", 512 * KIB}, {"T = 2 MiB", 2 * MIB}};

static void point(const char *figure, const char *curve, double x, double y)
{
    printf("%s\t%s\t%.6g\t%.6g\n", figure, curve, x, y);
}

/* Mean of |samples - n p| / (n p) of n blocks: de Moivre's formula for the binomial
 * distribution. */
static double mean_error(double n, double p)
{
    double next = floor(n * p) + 1;

    return next > n ? 2 * (1 - p) * sa_binomial_point(n, n, p)
                    : 2 * next * (1 - p) * sa_binomial_point(next, n, p) / (n * p);
}

static void errors(double bytes, const char *curve, double interval)
{
    double p = sa_rate_probability(interval, SMALL), n = floor(bytes / SMALL + 0.5);
    double none = sa_exp(n * sa_log1p(-p)), error = mean_error(n, p);
    char single[64];

    point("expected-error", curve, bytes, error);
    /* Without a sample the error is 1. */
    point("conditional-error", curve, bytes, (error - none) / (1 - none));

    snprintf(single, sizeof(single), "%s, one block", curve);
    p = sa_rate_probability(interval, bytes);
    point("expected-error", single, bytes, 2 * (1 - p));
    point("conditional-error", single, bytes, (1 - p) / p < 10 ? (1 - p) / p : NAN);
}

static void print_points(void)
{
    for (size_t t = 0; t < sizeof(intervals) / sizeof(intervals[0]); t++) {
        double interval = intervals[t].bytes;

        for (double bytes = KIB; bytes < 512 * MIB; bytes *= 1.06) {
            if (bytes < 64 * MIB)
                point("at-least-one", intervals[t].name, bytes,
                      -sa_expm1(bytes * sa_log1p(-1 / interval)));
            errors(bytes, intervals[t].name, interval);
        }
    }
    for (double s = 1; s <= 10000; s = floor(s * 1.15 + 1)) {
        struct sa_group group = {
            .p = 1e-6, .interval = MIB, .allocated = 1, .samples = (uint64_t)s};
        struct sa_sums sums = {0};
        struct salloc_estimate e;

        sa_sums_add(&sums, &group);
        sa_estimate(&sums, NULL, SALLOC_ESTIMATE_WEIGHTED, 0.95, &e);
        point("interval", "up to", s, e.count_high / e.count);
        point("interval", "from", s, e.count_low / e.count);
    }
    for (double part = 0.01; part < 10; part *= 1.05) {
        double t = 1 * MIB, a = part * t, p = sa_rate_probability(t, a);

        /* As parts of a T, the variance of many tiny blocks of the same bytes. */
        point("variance", "weighted: a / p", part, a * a * (1 - p) / p / (a * t));
        point("variance", "W = T + a - f", part, -sa_expm1(a * sa_log1p(-1 / t)) * t * t / (a * t));
        point("variance", "Poisson: T N", part, (t - 1) / t);
    }
}

/* Chance that the 95 % interval of n blocks has n in it, given a sample; *ret_all: or, without one,
 * that the bound on what was not seen does. */
static double coverage(double n, double p, double *ret_all)
{
    double mean = n * p, covered = 0, none = sa_exp(n * sa_log1p(-p));
    double first = fmax(1, mean - 5 * sqrt(mean) - 1), last = fmin(n, mean + 5 * sqrt(mean) + 20);

    for (double s = floor(first); s <= last; s++) {
        struct sa_group group = {.p = p, .interval = MIB, .allocated = 64, .samples = (uint64_t)s};
        struct sa_sums sums = {0};
        struct salloc_estimate e;

        sa_sums_add(&sums, &group);
        sa_estimate(&sums, NULL, SALLOC_ESTIMATE_WEIGHTED, 0.95, &e);
        if (e.count_low <= n * (1 + 1e-12) && n <= e.count_high * (1 + 1e-12))
            covered += sa_binomial_point(s, n, p);
    }
    *ret_all = covered + (sa_estimate_unseen(1 / p, 0.95) >= n ? none : 0);
    return covered / (1 - none);
}

static void print_coverage(void)
{
    static const double ps[] = {1e-6, 0.01, 0.1, 0.5, 0.9};
    static const double means[] = {1, 2, 3, 5, 10, 20, 50, 100, 1000, 10000};

    printf("| samples expected | p = 1e-6 | (all) | 0.01 | 0.1 | 0.5 | 0.9 "
           "|\n|---:|---:|---:|---:|---:|---:|---:|\n");
    for (size_t i = 0; i < sizeof(means) / sizeof(means[0]); i++) {
        printf("| %g |", means[i]);
        for (size_t k = 0; k < sizeof(ps) / sizeof(ps[0]); k++) {
            double all, given = coverage(ceil(means[i] / ps[k]), ps[k], &all);

            printf(" %.1f |", 100 * given);
            if (k == 0)
                printf(" %.1f |", 100 * all);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "points"))
        print_points();
    else if (argc == 2 && !strcmp(argv[1], "coverage"))
        print_coverage();
    else
        return fprintf(stderr, "usage: %s points | coverage\n", argv[0]), 2;
    return 0;
}
