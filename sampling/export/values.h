/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole numbers of a profile. Each row's estimates are rounded here, once, and every file is
 * sums of these numbers: that is why the totals of files in different formats agree to the byte.
 * The interval of the total is of the unrounded estimate.
 *
 * What a profile mainly tells ("main"): heap and peak, blocks and bytes in use; fragmentation,
 * blocks in use and bytes wasted; allocations and lifetimes, blocks and bytes allocated.
 */
#ifndef SA_SAMPLING_EXPORT_VALUES_H
#define SA_SAMPLING_EXPORT_VALUES_H

#include "alloc/os/buffer.h"
#include "sampling/profile/profile.h"

struct sa_values {
    uint64_t count, bytes;                    /* of the blocks of this row */
    uint64_t waste;                           /* fragmentation */
    uint64_t resident, swapped, locked, zero; /* heap, where known */
};

void sa_values_of_row(const struct sa_bucket *row, struct sa_values *ret);
void sa_values_of_total(const struct sa_total *total, struct sa_values *ret);

/* How long blocks have lived: nanoseconds. */
struct sa_lives {
    uint64_t blocks;
    double weight, sum; /* estimates: blocks, and their lives in all */
    uint64_t min, max;  /* of samples */
};

/* Everything of one allocating stack. */
struct sa_by_stack {
    const struct sa_stack *stack;
    uint64_t count, bytes;             /* main */
    uint64_t inuse_bytes;              /* FRAGMENTATION: of the blocks counted */
    uint64_t alloc_count, alloc_bytes; /* HEAP: ever allocated */
    struct sa_lives freed, censored;   /* LIFETIMES: until they were freed; until the stop */
    struct sa_sums sums;               /* of main; fragmentation: of what is in use */
};

/*
 * An array of struct sa_by_stack, most bytes first, that the caller frees. 0 or -ENOMEM. ret_all,
 * if not NULL, is their sum.
 */
int sa_values_by_stack(const struct sa_profile *profile, struct sa_buffer *ret,
                       struct sa_by_stack *ret_all);

#endif
