/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes estimates and confidence intervals from samples. All functions are pure arithmetic: they
 * keep no state, take no lock, allocate nothing, and any thread may call them.
 * doc/sampling_proofs.md derives the formulas.
 *
 * A sample is a block of a allocated bytes that was sampled with probability p = 1-(1-1/T)^a. The
 * model makes one trial for each byte. The first trial of the block that succeeded has number f (1
 * .. a), and N trials succeeded in all. A sample with p = 1 is certain: T = 1, f = 1, and its block
 * is counted exactly.
 */
#ifndef SA_SAMPLING_ESTIMATE_ESTIMATE_H
#define SA_SAMPLING_ESTIMATE_ESTIMATE_H

#include "include/salloc/profile.h"

#include <stdint.h>

/* Reports print an upper end of this many bytes or blocks, or more, as unknown. */
#define SA_ESTIMATE_UNKNOWN 1e15

/* Samples of blocks of one size that have one probability. */
struct sa_group {
    double p;         /* probability of each sample, above 0, at most 1 */
    double interval;  /* T in bytes, from which p follows */
    double allocated; /* a: bytes that each block occupies */
    uint64_t samples;
    double offsets; /* sum of f over the samples */
    double hits;    /* sum of N over the samples */
};

/*
 * The sums over a set of samples from which sa_estimate computes every estimate and interval. All
 * zero is the empty set. The fields other than `certain` and `certain_bytes` are sums over samples
 * with p < 1. A comment names the summand.
 */
struct sa_sums {
    uint64_t samples;                      /* 1 */
    uint64_t certain;                      /* 1, for samples with p = 1 */
    double certain_bytes;                  /* a, for samples with p = 1 */
    double count, bytes;                   /* 1/p and a/p */
    double sampled_bytes;                  /* a */
    double count_variance, bytes_variance; /* (1-p)/p^2 and a^2 (1-p)/p^2 */
    double bytes_squares;                  /* a^2 (1-p)/p */
    double offset_count, offset_bytes;     /* W/a and W = T+a-f */
    double hits_count, hits_bytes;         /* T N/a and T N */
    double failures, failures_variance;    /* T-1 and T (T-1) */
    double offset_count_variance;          /* T (T-1)/a^2 */
};

/* Adds the samples of the group to the set. */
void sa_sums_add(struct sa_sums *sums, const struct sa_group *group);

/* Adds the set `from` to the set `into`. No sample may be in both. */
void sa_sums_merge(struct sa_sums *into, const struct sa_sums *from);

/*
 * Describes the blocks that a set may contain without a sample of their kind
 * (doc/sampling_proofs.md, "What no sample tells of"). A weight is the amount that one sample of
 * the rarest kind would stand for. Weight 0: all such blocks are certain. Weight INFINITY: sampling
 * was off. The past is the blocks allocated before the last change of the rates. All zero: the set
 * has no unseen blocks.
 */
struct sa_unseen {
    double bytes;              /* weight in bytes: the largest T */
    double blocks;             /* weight in blocks: the largest 1/p */
    double past_bytes_weight;  /* the same for the past */
    double past_blocks_weight; /* the same for the past */
    double past_bytes;         /* most bytes that blocks of the past still occupy */
    double past_blocks;        /* most blocks of the past that still exist */
};

/*
 * Stores the estimates of blocks and bytes of a set, with their confidence intervals, in *ret.
 *
 * level: confidence level between 0 and 1, such as 0.95.
 * unseen: the upper ends allow for these blocks, and may be INFINITY. NULL: all blocks of the set
 * are like the samples, and the set was looked at because it has a sample. The interval of the
 * empty set is then 0 to 0.
 */
void sa_estimate(const struct sa_sums *sums, const struct sa_unseen *unseen,
                 enum salloc_estimator estimator, double level, struct salloc_estimate *ret);

/*
 * The sums over a set of samples from which sa_estimate_value computes the total of a value y that
 * does not follow from the size, such as resident bytes. All zero is the empty set. The last four
 * fields are sums over samples with p < 1. A comment names the summand.
 */
struct sa_value_sums {
    uint64_t samples; /* 1, for all samples */
    double certain;   /* y, for samples with p = 1 */
    double sampled;   /* y */
    double missed;    /* y (1-p)/p */
    double variance;  /* y^2 (1-p)/p^2 */
    double squares;   /* y^2 (1-p)/p */
};

/* Adds a sample with the probability p and the value y to the set. */
void sa_value_sums_add(struct sa_value_sums *sums, double p, double y);

/*
 * Stores the estimated total of y over all blocks, and its confidence interval, in *ret. If no
 * block's y exceeds its bytes, unseen is that of the set's bytes. Otherwise unseen->bytes is the
 * largest y/p of any block, sampled or not. level: as for sa_estimate.
 */
void sa_estimate_value(const struct sa_value_sums *sums, const struct sa_unseen *unseen,
                       double level, struct salloc_interval *ret);

/*
 * The sums over a set of samples from which sa_estimate_life computes the mean life. All zero is
 * the empty set. A comment names the summand. y is the life of the sample, in any unit of time.
 */
struct sa_life_sums {
    uint64_t samples;            /* 1 */
    uint64_t certain;            /* 1, for samples with p = 1 */
    double weights, squares;     /* 1/p and 1/p^2 */
    double lives;                /* y/p */
    double missed;               /* (1-p)/p^2 */
    double missed_lives;         /* y (1-p)/p^2 */
    double missed_lives_squares; /* y^2 (1-p)/p^2 */
};

/* Adds n samples with the probability p. Their lives have this sum and this sum of squares. */
void sa_life_sums_add(struct sa_life_sums *sums, double p, uint64_t n, double sum, double squares);

/*
 * Stores the weighted mean life, and its confidence interval, in *ret. The interval is that of
 * Student for the logarithm of the mean. The interval is the mean itself if all samples are
 * certain, and otherwise 0 to INFINITY below 4 samples. level: as for sa_estimate.
 */
void sa_estimate_life(const struct sa_life_sums *sums, double level, struct salloc_interval *ret);

/*
 * Returns the upper end in bytes of the confidence interval of a set without a sample. interval:
 * the sampling interval T in bytes. The result is 0 for T of at most 1, with which every block is
 * sampled. Source: (1-1/T)^bytes = (1-level)/2.
 */
double sa_estimate_unseen(double interval, double level);

#endif
