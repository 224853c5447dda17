/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random draws of the sampler, from a generator's state that the caller owns. Geometric numbers
 * come from inverting the distribution function: floor(log(u) / log(1-p)) failures before the first
 * success, for u uniform in (0, 1].
 */
#ifndef SA_SAMPLING_ESTIMATE_RANDOM_VARIATES_H
#define SA_SAMPLING_ESTIMATE_RANDOM_VARIATES_H

#include "alloc/base/math.h"
#include "alloc/base/rng.h"
#include "sampling/estimate/rates.h"

#include <stdbool.h>

/* Uniform in (0, 1]. */
SA_INLINE double sa_variate_real(uint64_t bits)
{
    return (double)((bits >> 11) + 1) * 0x1p-53;
}

SA_INLINE double sa_variate_uniform(uint64_t *rng)
{
    return sa_variate_real(sa_rng_next(rng));
}

/* One trial. */
SA_INLINE bool sa_variate_trial(uint64_t *rng, double p)
{
    return p > 0 && sa_variate_uniform(rng) <= p;
}

/* Failures before the next success; `most` if they are at least as many. */
SA_INLINE uint32_t sa_variate_failures(uint64_t *rng, const struct sa_rate *rate, uint32_t most)
{
    double n;

    if (rate->p <= 0)
        return most;
    if (rate->p >= 1)
        return 0;
    n = sa_log(sa_variate_uniform(rng)) / rate->log_fail;
    return n < most ? (uint32_t)n : most;
}

/*
 * Number of the first byte (1 .. bytes) of a sampled block whose trial succeeded, given that one
 * did. `own` is a generator that nobody else uses; the rate is that of a block of so many bytes.
 */
SA_INLINE double sa_variate_offset(uint64_t *own, const struct sa_rate *rate, double bytes)
{
    double n;

    if (rate->p >= 1)
        return 1;
    n = sa_log1p(-(1 - sa_variate_real(sa_rng_own(own))) * rate->p) / (rate->log_fail / bytes);
    return n < bytes - 1 ? (double)(uint64_t)n + 1 : bytes;
}

/* How many of the block's byte trials succeeded, given that the first was number offset. The same
 * arguments. */
SA_INLINE double sa_variate_hits(uint64_t *own, const struct sa_rate *rate, double bytes,
                                 double offset)
{
    double n = 1, u, gap, log_fail;

    if (rate->p >= 1)
        return bytes;                  /* T is 1: every byte */
    log_fail = rate->log_fail / bytes; /* of one byte: log(1-1/T) */
    for (;; n++) {
        u = sa_variate_real(sa_rng_own(own));
        if (u - 1 <= log_fail * (bytes - offset)) /* so is log(u), which is less */
            return n;
        gap = sa_log(u) / log_fail; /* its whole part fail */
        if (gap >= bytes - offset)
            return n;
        offset += (double)(uint64_t)gap + 1;
    }
}

#endif
