/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks, and samples of them, for what estimates are made of. */
#ifndef TEST_SUPPORT_ESTIMATE_BLOCKS_H
#define TEST_SUPPORT_ESTIMATE_BLOCKS_H

#include "sampling/estimate/estimate.h"
#include "sampling/estimate/random_variates.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define T 524288.0

static uint64_t rng;

/* `count` blocks of one size. */
struct blocks {
    double size, count, p;
};

static inline double probability(double size)
{
    double p = -expm1(size * log1p(-1 / T));

    return p > SA_RATE_CERTAIN ? 1 : p;
}

/* Samples them, by the gaps between those that are included. How many. */
static inline uint64_t take(const struct blocks *b, struct sa_sums *sums)
{
    struct sa_rate rate = {.p = b->p, .interval = T, .log_fail = log1p(-b->p)};
    struct sa_group group = {.p = b->p, .interval = T, .allocated = b->size};

    if (b->p >= 1) {
        group.interval = 1;
        group.samples = (uint64_t)b->count;
        sa_sums_add(sums, &group);
        return 0;
    }
    for (double at = 0;;) {
        at += floor(log(sa_variate_uniform(&rng)) / rate.log_fail) + 1;
        if (at > b->count)
            break;

        double offset = sa_variate_offset(sa_rng_next(&rng), &rate, b->size);

        group.samples++;
        group.offsets += offset;
        group.hits += sa_variate_hits(&rng, &rate, b->size, offset);
    }
    sa_sums_add(sums, &group);
    return group.samples;
}

static inline uint64_t take_all(const struct blocks *b, size_t n, struct sa_sums *sums)
{
    uint64_t samples = 0;

    for (size_t i = 0; i < n; i++)
        samples += take(&b[i], sums);
    return samples;
}

#endif
