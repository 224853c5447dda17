/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of profile rows found by key: samples that are alike are added up as they come. Memory is
 * mapped; the number of rows is bounded. No lock: the owner's guards it.
 */
#ifndef SA_SAMPLING_PROFILE_PROFILE_BUCKETS_H
#define SA_SAMPLING_PROFILE_PROFILE_BUCKETS_H

#include "sampling/profile/profile.h"

#include <stddef.h>
#include <stdint.h>

#define SA_ROWS_MAX (1u << 19)

struct sa_buckets {
    struct sa_bucket *rows; /* mapping of cap rows, then an index of 2 cap entries */
    uint32_t *index;        /* number of a row plus 1, open addressing; 0: empty */
    size_t count, cap;
    size_t bytes;     /* of the mapping */
    uint64_t dropped; /* samples for which there was no room */
};

/*
 * The row of a key, new (with references to its stacks) if there is none. NULL, and counted as
 * dropped, if there is no memory or too many rows.
 */
struct sa_bucket *sa_buckets_find(struct sa_buckets *rows, const struct sa_bucket_key *key);

/* No row will be looked for any more: gives up all memory but that of the rows. */
void sa_buckets_trim(struct sa_buckets *rows);

/* Releases the references and the memory. */
void sa_buckets_free(struct sa_buckets *rows);

#endif
