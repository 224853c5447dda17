/* SPDX-License-Identifier: Apache-2.0 */
/* Small functions on integers, without state. An alignment is a power of two, unless the name of a
 * parameter says otherwise. */
#ifndef SA_BASE_BITS_H
#define SA_BASE_BITS_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

SA_INLINE size_t sa_align_up(size_t x, size_t align)
{
    return (x + align - 1) & ~(align - 1);
}

SA_INLINE size_t sa_align_down(size_t x, size_t align)
{
    return x & ~(align - 1);
}

SA_INLINE bool sa_is_pow2(size_t x)
{
    return x != 0 && (x & (x - 1)) == 0;
}

/* floor(log2(x)), for x > 0. */
SA_INLINE unsigned sa_log2(uint64_t x)
{
    return 63u - (unsigned)__builtin_clzll(x);
}

/* The index of the lowest set bit, for x != 0. */
SA_INLINE unsigned sa_lowest_bit(uint64_t x)
{
    return (unsigned)__builtin_ctzll(x);
}

/* Returns whether a / of_a is less than b / of_b, for amounts that are at most what they are of. No
 * division. Both products must fit 64 bits. False if of_a is 0. */
SA_INLINE bool sa_fraction_less(size_t a, size_t of_a, size_t b, size_t of_b)
{
    return a * of_b < b * of_a;
}

SA_INLINE size_t sa_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

SA_INLINE size_t sa_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
