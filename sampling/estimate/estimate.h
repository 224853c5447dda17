/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to estimates with confidence intervals: pure arithmetic, no state, no locks. The
 * derivations are in doc/sampling.md.
 *
 * A sample is a block of a allocated bytes that was included with probability p = 1-(1-1/T)^a. Of
 * the byte trials in it, the first that succeeded was number f (1 .. a), and N succeeded in all. p
 * = 1 means: certain, T = 1, f = 1, and the block is counted exactly.
 */
#ifndef SA_SAMPLING_ESTIMATE_ESTIMATE_H
#define SA_SAMPLING_ESTIMATE_ESTIMATE_H

#include "include/salloc/profile.h"

#include <stdint.h>

/* An upper end as high as this is none: nobody knows. */
#define SA_ESTIMATE_UNKNOWN 1e15

/* Samples that are alike. */
struct sa_group {
    double p, interval; /* interval: T, of which p follows */
    double allocated;   /* a */
    uint64_t samples;
    double offsets; /* sum of f */
    double hits;    /* sum of N */
};

/*
 * What all estimates and intervals of a set of samples need; all zero is the empty set. All but the
 * certain ones are sums over samples with p < 1.
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
 * Blocks that may be in a set without a sample of their kind: how much one sample of the rarest
 * kind would stand for. Weights: `bytes` is the largest T, `blocks` the largest 1/p. 0: all such
 * blocks are certain. INFINITY: sampling was off. The past is what was allocated before the last
 * change of the rates; what is left of it has at most past_bytes bytes and past_blocks blocks. All
 * zero: nothing is unseen.
 */
struct sa_unseen {
    double bytes, blocks;
    double past_bytes_weight, past_blocks_weight;
    double past_bytes, past_blocks;
};

/*
 * Estimate and interval of a set; level is between 0 and 1, as 0.95. unseen may be NULL: then the
 * interval is one of those for sets of which something was sampled and whose blocks are all like
 * the samples; for the empty set all is zero. Otherwise upper ends allow for blocks that no sample
 * tells of; they may be INFINITY.
 */
void sa_estimate(const struct sa_sums *sums, const struct sa_unseen *unseen,
                 enum salloc_estimator estimator, double level, struct salloc_estimate *ret);

/*
 * Values of samples, as their resident bytes, with which a set has a weighted sum; all zero is the
 * empty set. Sums over samples with p < 1 but for `certain`.
 */
struct sa_value_sums {
    uint64_t samples; /* all of them */
    double certain;   /* y, of samples with p = 1 */
    double sampled;   /* y */
    double missed;    /* y (1-p)/p */
    double variance;  /* y^2 (1-p)/p^2 */
    double squares;   /* y^2 (1-p)/p */
};

void sa_value_sums_add(struct sa_value_sums *sums, double p, double y);

/*
 * The weighted sum of y, which no block has more of than bytes. Or, if it can have, unseen->bytes
 * is the largest y/p of any block, sampled or not.
 */
void sa_estimate_value(const struct sa_value_sums *sums, const struct sa_unseen *unseen,
                       double level, struct salloc_interval *ret);

/* Lives of samples, as sums over all of them; all zero is the empty set. */
struct sa_life_sums {
    uint64_t samples, certain;   /* all, and with p = 1 */
    double weights, squares;     /* 1/p and 1/p^2 */
    double lives;                /* y/p */
    double missed;               /* (1-p)/p^2 */
    double missed_lives;         /* y (1-p)/p^2 */
    double missed_lives_squares; /* y^2 (1-p)/p^2 */
};

/* n samples with probability p, whose lives have this sum and sum of squares. */
void sa_life_sums_add(struct sa_life_sums *sums, double p, uint64_t n, double sum, double squares);

/*
 * The weighted mean life. The interval is that of Student for its logarithm; from 0 to infinity for
 * less than 4 samples, of those that are not certain.
 */
void sa_estimate_life(const struct sa_life_sums *sums, double level, struct salloc_interval *ret);

/* Upper end in bytes of the interval of a set sampled at mean interval T of which no sample was
 * taken. */
double sa_estimate_unseen(double interval, double level);

#endif
