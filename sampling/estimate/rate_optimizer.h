/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inclusion probabilities per size class that estimate the live heap best with the same number
 * of samples. A pure function; the derivation is in doc/sampling.md.
 */
#ifndef SA_SAMPLING_ESTIMATE_RATE_OPTIMIZER_H
#define SA_SAMPLING_ESTIMATE_RATE_OPTIMIZER_H

#include <stddef.h>

struct sa_rate_optimizer_class {
    double size;
    double allocations; /* how often it is allocated, over any time */
    double live;        /* blocks that are */
    double p_default;   /* 0 .. 1 */
    double p;           /* the result */
};

/*
 * Sets every p such that the variance of the estimate of live bytes, sum of size^2 live (1-p)/p, is
 * the least among all with the same expected number of samples, sum of allocations p, as by
 * default, and with p between floor_share p_default and 1. A class without allocations, and all
 * classes when nothing is live, keep the default. floor_share is above 0, so that a class that
 * wakes up is seen, and at most 1.
 *
 * Returns by what factor the variance fell: that by default over that by p; 1 if both are 0,
 * infinite if only the latter is.
 */
double sa_rate_optimizer_rates(struct sa_rate_optimizer_class *classes, size_t count,
                               double floor_share);

#endif
