/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of profile buckets: finds the bucket of a key, so that samples are added up as they
 * come. Its memory is mapped, and the number of buckets is bounded. The table has no lock. The
 * owner's lock guards it.
 */
#ifndef SA_SAMPLING_PROFILE_PROFILE_BUCKETS_H
#define SA_SAMPLING_PROFILE_PROFILE_BUCKETS_H

#include "sampling/profile/profile.h"

#include <stddef.h>
#include <stdint.h>

#define SA_BUCKETS_MAX (1u << 19) /* most buckets of a table */

/* A table. All zero is the empty one. */
struct sa_buckets {
    struct sa_bucket
        *buckets;     /* the buckets: a mapping of cap of them, and behind them the index */
    uint32_t *index;  /* 2 cap entries, linear probing: index of a bucket plus 1; 0: empty */
    size_t count;     /* buckets in use */
    size_t cap;       /* a power of two, or 0: nothing is mapped */
    size_t bytes;     /* of the mapping */
    uint64_t dropped; /* calls of sa_buckets_find without room */
};

/*
 * Returns the bucket of a key. If there is none, it is made, with references of its own to the
 * stacks. The pointer is valid until the next call. NULL: the table has no memory, or
 * SA_BUCKETS_MAX buckets; the call is counted as dropped. Requires that the caller holds references
 * to the stacks.
 */
struct sa_bucket *sa_buckets_find(struct sa_buckets *buckets, const struct sa_bucket_key *key);

/* Gives back all memory except that of the buckets in use. sa_buckets_find must not be called from
 * then on. */
void sa_buckets_trim(struct sa_buckets *buckets);

/* Gives back the references and the memory, and leaves the table empty. Takes STACKS. */
void sa_buckets_free(struct sa_buckets *buckets);

#endif
