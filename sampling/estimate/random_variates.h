/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random variates for sampling decisions and samples. The state of the generator belongs to the
 * caller. Functions with the argument `rng` may share a state between threads. Functions with the
 * argument `own` require that no other thread uses the state.
 *
 * A geometric variate is the inverse of the distribution function: floor(log(u) / log(1-p))
 * failures come before the first success, for u uniform in (0, 1].
 */
#ifndef SA_SAMPLING_ESTIMATE_RANDOM_VARIATES_H
#define SA_SAMPLING_ESTIMATE_RANDOM_VARIATES_H

#include "alloc/base/fatal.h"
#include "alloc/base/math.h"
#include "alloc/base/rng.h"
#include "sampling/estimate/rates.h"

#include <stdbool.h>

/* Returns the number in (0, 1] that 53 of the random bits select. It is uniform if they are. */
SA_INLINE double sa_variate_real(uint64_t bits)
{
    return (double)((bits >> 11) + 1) * 0x1p-53;
}

/* Returns a uniform variate in (0, 1]. */
SA_INLINE double sa_variate_uniform(uint64_t *rng)
{
    return sa_variate_real(sa_rng_next(rng));
}

/* Returns true with probability p: a Bernoulli variate. */
SA_INLINE bool sa_variate_bernoulli(uint64_t *rng, double p)
{
    return p > 0 && sa_variate_uniform(rng) <= p;
}

/* Returns the number of blocks of the rate that are not sampled before the next sampled one, at
 * most `most`: a geometric variate. */
SA_INLINE uint32_t sa_variate_failures(uint64_t *rng, const struct sa_rate *rate, uint32_t max)
{
    double n, u;

    if (rate->p <= 0)
        return max;
    if (rate->p >= 1)
        return 0;
    u = sa_variate_uniform(rng);
    if (u > 1 - rate->p) /* log(u) > log(1-p): the quotient below is less than 1. Saves the log */
        return 0;
    if (u - 1 <= max * rate->log_fail) /* so is log(u), which is at most u - 1: the same */
        return max;
    n = sa_log(u) / rate->log_fail;
    return n < max ? (uint32_t)n : max;
}

/*
 * Returns f for a sampled block: the number (1 .. bytes) of the first byte whose trial succeeded,
 * given that one did. bits: uniform. rate: the rate of blocks of this many bytes. The source is the
 * inverse of P(first success <= f | any) = (1 - (1-1/T)^f) / p.
 */
SA_INLINE double sa_variate_offset(uint64_t bits, const struct sa_rate *rate, double bytes)
{
    double n;

    SA_DCHECK(rate->p > 0 && bytes >= 1);
    if (rate->p >= 1)
        return 1;
    /* The quotient does not depend on the logarithm: a processor computes both at once. */
    n = sa_log1p(-(1 - sa_variate_real(bits)) * rate->p) * (bytes / rate->log_fail);
    return n < bytes - 1 ? (double)(uint64_t)n + 1 : bytes;
}

/* Returns N for a sampled block: how many of its byte trials succeeded, given that the first was
 * number `offset`. own: a generator that nobody else uses. Draws the gaps between successes. */
SA_INLINE double sa_variate_hits(uint64_t *own, const struct sa_rate *rate, double bytes,
                                 double offset)
{
    double n = 1, u, gap, per_log;

    SA_DCHECK(offset >= 1 && offset <= bytes);
    if (rate->p >= 1)
        return bytes;                 /* a certain block has T = 1: every trial succeeds */
    per_log = bytes / rate->log_fail; /* 1 / log(1-1/T), which is negative */
    for (;; n++) {
        u = sa_variate_real(sa_rng_own(own));
        if ((u - 1) * per_log >= bytes - offset) /* so is the gap: log(u) <= u - 1. Saves the log */
            return n;
        gap = sa_log(u) * per_log; /* floor(gap) trials fail before the next success */
        if (gap >= bytes - offset)
            return n;
        offset += (double)(uint64_t)gap + 1;
    }
}

#endif
