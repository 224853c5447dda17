/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014) as a
 * counter-based generator: the state is one word advanced by a constant, the output a mix of it.
 * Threads share a generator with one add; the same seed gives the same set of numbers.
 */
#ifndef SA_BASE_RNG_H
#define SA_BASE_RNG_H

#include "alloc/base/attrs.h"
#include "alloc/base/single_threaded.h"

#include <stdint.h>

#define SA_RNG_STEP 0x9e3779b97f4a7c15ull

SA_INLINE uint64_t sa_rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Of a generator that nobody else uses. */
SA_INLINE uint64_t sa_rng_own(uint64_t *state)
{
    return sa_rng_mix(*state += SA_RNG_STEP);
}

SA_INLINE uint64_t sa_rng_next(uint64_t *state)
{
    return sa_rng_mix(sa_count_shared(state, SA_RNG_STEP) + SA_RNG_STEP);
}

#endif
