/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the sampling probability of each size class with which a given number of samples
 * estimates the live heap best. The function is pure. doc/sampling_proofs.md, "Rates per size
 * class", derives the formula.
 */
#ifndef SA_SAMPLING_ESTIMATE_RATE_OPTIMIZER_H
#define SA_SAMPLING_ESTIMATE_RATE_OPTIMIZER_H

#include <stddef.h>

struct sa_rate_optimizer_class {
    double size;        /* bytes of each block */
    double allocations; /* allocations in any period, the same for all classes */
    double live;        /* live blocks */
    double p_default;   /* 0 .. 1 */
    double p;           /* the result: min_share * p_default .. 1 */
};

/*
 * Sets the p of every class, so that the estimate of live bytes has the least variance, the sum of
 * size^2 live (1-p)/p, at the expected number of samples of the defaults, the sum of allocations p.
 *
 * A class without allocations keeps its default. All classes keep their defaults if none has live
 * blocks.
 * min_share: above 0, at most 1. A class whose demand begins later is seen because of it.
 *
 * Returns the variance of the defaults divided by that of the results: 1 if both are 0, infinite if
 * only the latter is.
 */
double sa_rate_optimizer_rates(struct sa_rate_optimizer_class *classes, size_t count,
                               double min_share);

#endif
