/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
 * 2014) as a counter-based generator. The state is one word, to which each draw adds a constant;
 * the output is a mix of the state. Threads share a generator with one atomic addition. The same
 * seed gives the same set of numbers, whichever thread draws which.
 */
#ifndef SA_BASE_RNG_H
#define SA_BASE_RNG_H

#include "alloc/base/attrs.h"
#include "alloc/base/single_threaded.h"

#include <stdint.h>

#define SA_RNG_STEP 0x9e3779b97f4a7c15ull

/* The mixing function: a bijection. */
SA_INLINE uint64_t sa_rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* Draws from a generator that only the caller uses. */
SA_INLINE uint64_t sa_rng_own(uint64_t *state)
{
    return sa_rng_mix(*state += SA_RNG_STEP);
}

/* Draws from a generator that threads and signal handlers share. */
SA_INLINE uint64_t sa_rng_next(uint64_t *state)
{
    return sa_rng_mix(sa_count_shared(state, SA_RNG_STEP) + SA_RNG_STEP);
}

#endif
