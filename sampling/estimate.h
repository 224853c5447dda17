/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to estimates with confidence intervals: pure arithmetic, no state, no locks. The
 * derivations are in doc/sampling.md.
 *
 * A sample is a block of a allocated bytes that was included with probability p = 1-(1-1/T)^a. Of the
 * byte trials in it, the first that succeeded was number f (1 .. a), and N succeeded in all. p = 1
 * means: certain, T = 1, f = 1, and the block is counted exactly.
 */
#ifndef SA_SAMPLING_ESTIMATE_H
#define SA_SAMPLING_ESTIMATE_H

#include "include/salloc/profile.h"

#include <stdint.h>

/* Samples that are alike. */
struct sa_group {
    double p, interval; /* interval: T, of which p follows */
    double allocated;   /* a */
    uint64_t samples;
    double offsets; /* sum of f */
    double hits;    /* sum of N */
};

/*
 * What all estimates and intervals of a set of samples need; all zero is the empty set. All but the certain
 * ones are sums over samples with p < 1.
 */
struct sa_sums {
    uint64_t samples;
    uint64_t certain; /* with p = 1 */
    double certain_bytes;
    double count, bytes;                   /* 1/p and a/p */
    double sampled_bytes;                  /* a */
    double count_variance, bytes_variance; /* (1-p)/p^2 and a^2 (1-p)/p^2 */
    double bytes_squares;                  /* a^2 (1-p)/p */
    double offset_count, offset_bytes;     /* W/a and W = T+a-f */
    double hits_count, hits_bytes;         /* T N/a and T N */
    double failures, failures_variance;    /* T-1 and T (T-1) */
    double offset_count_variance;          /* T (T-1)/a^2 */
};

void sa_sums_add(struct sa_sums *sums, const struct sa_group *group);
void sa_sums_merge(struct sa_sums *into, const struct sa_sums *from);

/*
 * Estimate and interval of a set; level is between 0 and 1, as 0.95. An interval is one of those for sets of
 * which something was sampled; for the empty set all is zero, and sa_estimate_unseen says what may have been missed.
 */
void sa_estimate(const struct sa_sums *sums, enum salloc_estimator estimator, double level,
                 struct salloc_estimate *ret);

/* Upper end in bytes of the interval of a set sampled at mean interval T of which no sample was taken. */
double sa_estimate_unseen(double interval, double level);

#endif
