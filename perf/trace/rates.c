/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what factor optimal rates lower the variance of the estimate of live bytes, at equal numbers
 * of samples. usage: salloc-trace-rates INTERVAL < table The table has lines of kind (class or
 * large), size, allocations, live blocks. Large blocks keep the default rate, and their share of
 * the variance is in both figures. Prints the samples expected of all allocations, the standard
 * deviation relative to the live bytes by default and with optimal rates, and the factor; then for
 * either the expected number of live samples and how often the 95 % intervals of the live bytes and
 * of the live blocks are right, in simulated runs, also those without a sample.
 */
#include "sampling/estimate/random_variates.h"
#include "sampling/estimate/estimate.h"
#include "sampling/estimate/rate_optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLOOR   0.1
#define CERTAIN 0.99
#define RUNS    2000

static struct sa_rate_optimizer_class classes[1024];

/* Samples live blocks of the class: by the gaps between those that are included. */
static void take(const struct sa_rate_optimizer_class *c, double p, uint64_t *seed,
                 struct sa_sums *sums)
{
    struct sa_group group = {.p = p > CERTAIN ? 1 : p, .interval = 1, .allocated = c->size};

    if (group.p < 1)
        group.interval = -1 / expm1(log1p(-p) / c->size);
    for (double at = 0;;) {
        at += group.p < 1 ? floor(log(sa_variate_uniform(seed)) / log1p(-p)) + 1 : 1;
        if (at > c->live)
            break;
        group.samples++;
    }
    if (group.samples)
        sa_sums_add(sums, &group);
}

/* What of all classes may go unseen; unsampled ones of the smallest size cannot be told from those
 * that do not exist. */
static struct sa_unseen unseen_of(size_t count, int optimal, double interval)
{
    struct sa_unseen u = {.bytes = interval};

    for (size_t i = 0; i < count; i++) {
        double p = optimal ? classes[i].p : classes[i].p_default;

        if (p < 1) {
            u.bytes = fmax(u.bytes, -1 / expm1(log1p(-p) / classes[i].size));
            u.blocks = fmax(u.blocks, 1 / p);
        }
    }
    return u;
}

static void simulate(size_t count, int optimal, double interval, double bytes, double blocks)
{
    struct sa_unseen unseen = unseen_of(count, optimal, interval);
    uint64_t seed = 20240617, samples = 0;
    int bytes_right = 0, blocks_right = 0;

    for (int run = 0; run < RUNS; run++) {
        struct sa_sums sums = {0};
        struct salloc_estimate e;

        for (size_t i = 0; i < count; i++)
            take(&classes[i], optimal ? classes[i].p : classes[i].p_default, &seed, &sums);
        samples += sums.samples;
        sa_estimate(&sums, &unseen, SALLOC_ESTIMATE_WEIGHTED, 0.95, &e);
        bytes_right += e.bytes_low <= bytes && bytes <= e.bytes_high;
        blocks_right += e.count_low <= blocks && blocks <= e.count_high;
    }
    printf(" %.1f %.4f %.4f", (double)samples / RUNS, (double)bytes_right / RUNS,
           (double)blocks_right / RUNS);
}

int main(int argc, char **argv)
{
    static struct sa_rate_optimizer_class blocks[512];
    double interval = argc > 1 ? atof(argv[1]) : 0, size, allocations, live;
    double samples = 0, bytes = 0, alive = 0, large = 0, before = 0, after = 0;
    size_t count = 0, larger = 0;
    char kind[16];

    if (interval <= 1) {
        fprintf(stderr, "usage: %s INTERVAL < table\n", argv[0]);
        return 2;
    }
    while (count < 512 && larger < 512 &&
           scanf("%15s %lf %lf %lf", kind, &size, &allocations, &live) == 4) {
        double p = -expm1(size * log1p(-1 / interval));

        p = p > CERTAIN ? 1 : p;
        samples += p < 1 ? allocations * p : 0;
        bytes += size * live;
        alive += live;
        large += strcmp(kind, "large") ? 0 : size * size * live * (1 - p) / p;
        *(strcmp(kind, "large") ? &classes[count++] : &blocks[larger++]) =
            (struct sa_rate_optimizer_class){size, allocations, live, p, p};
    }
    sa_rate_optimizer_rates(classes, count, FLOOR);
    for (size_t i = 0; i < count; i++) {
        struct sa_rate_optimizer_class *c = &classes[i];

        before += c->size * c->size * c->live * (1 - c->p_default) / c->p_default;
        after += c->size * c->size * c->live * (1 - c->p) / c->p;
    }
    printf("%.0f %.5f %.5f %.3f", samples, sqrt(before + large) / bytes,
           sqrt(after + large) / bytes, (before + large) / (after + large));
    memcpy(classes + count, blocks, larger * sizeof(blocks[0]));
    simulate(count + larger, 0, interval, bytes, alive);
    simulate(count + larger, 1, interval, bytes, alive);
    printf("\n");
    return 0;
}
