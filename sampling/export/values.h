/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds the estimates of a profile to whole numbers, and adds them up by stack. Each bucket's
 * estimates are rounded here, once, and every file contains sums of these numbers. The totals of
 * files in different formats therefore agree to the byte. The interval of the total is that of the
 * unrounded estimate. All functions are pure but for the memory of sa_values_by_stack.
 *
 * The main numbers of a profile are blocks and bytes: those in use (HEAP, PEAK_HEAP), those in use
 * and the bytes wasted (FRAGMENTATION), or those allocated (ALLOCATIONS, LIFETIMES).
 */
#ifndef SA_SAMPLING_EXPORT_VALUES_H
#define SA_SAMPLING_EXPORT_VALUES_H

#include "alloc/os/buffer.h"
#include "sampling/profile/profile.h"

/* The rounded estimates of a bucket or a total. */
struct sa_values {
    uint64_t count, bytes;                    /* blocks, and the bytes that they occupy */
    uint64_t waste;                           /* FRAGMENTATION: bytes wasted beside them */
    uint64_t resident, swapped, locked, zero; /* HEAP: bytes, 0 if not known */
};

/* Round the estimates of a bucket, and of a total. */
void sa_values_of_bucket(const struct sa_bucket *bucket, struct sa_values *ret);
void sa_values_of_total(const struct sa_total *total, struct sa_values *ret);

/* Returns the samples of a bucket whose probability does not follow from the profile's interval and
 * the size. 0: it follows, and readers of a file know it. */
uint64_t sa_values_unusual_samples(const struct sa_profile *profile,
                                   const struct sa_bucket *bucket);

/* The lives of blocks, in nanoseconds. */
struct sa_lives {
    uint64_t blocks;   /* rounded estimate */
    double weight;     /* estimate of the blocks */
    double sum;        /* estimate of the sum of their lives */
    uint64_t min, max; /* of the samples */
};

/* The numbers of one allocating stack. */
struct sa_by_stack {
    const struct sa_stack *stack;      /* belongs to the profile; NULL: the sum over all stacks */
    uint64_t count, bytes;             /* the main numbers */
    uint64_t inuse_bytes;              /* FRAGMENTATION: bytes of the blocks in use */
    uint64_t alloc_count, alloc_bytes; /* HEAP: ever allocated */
    struct sa_lives freed, censored;   /* LIFETIMES: until the free; until the stop */
    struct sa_sums sums;               /* of the main numbers; FRAGMENTATION: of those in use */
};

/*
 * Stores an array of struct sa_by_stack, most bytes first, which the caller frees with
 * sa_buffer_free. ret_all receives the sum over all stacks, unless it is NULL. Returns 0, or
 * -ENOMEM without an array.
 */
int sa_values_by_stack(const struct sa_profile *profile, struct sa_buffer *ret,
                       struct sa_by_stack *ret_all);

#endif
