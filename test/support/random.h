/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for random tests: xorshift64* (Marsaglia, Vigna). Every test seeds it with a constant of
 * its own, so that a failure repeats; the allocator's own generator is not used, because it is
 * under test itself.
 */
#ifndef SA_TEST_RANDOM_H
#define SA_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct test_random {
    uint64_t state; /* not 0 */
};

static inline uint64_t test_random_next(struct test_random *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1dull;
}

/* 0 .. n - 1; n > 0. The bias of the remainder is below n / 2^64. */
static inline size_t test_random_below(struct test_random *r, size_t n)
{
    return (size_t)(test_random_next(r) % n);
}

/* About evenly spread over orders of magnitude: 1 .. 2^bits - 1. */
static inline size_t test_random_size(struct test_random *r, unsigned bits)
{
    size_t top = (size_t)1 << test_random_below(r, bits);

    return top | (test_random_next(r) & (top - 1));
}

#endif
