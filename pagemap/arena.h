/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata arena: memory for salloc's own records. It is carved from blocks and never released.
 * Small records lie together, apart from large ones. The owners of records that come and go keep
 * free lists of them. Fresh memory is zero.
 *
 * The stats use that mapped = allocated + unallocated + unavailable. Unavailable is the rest of a
 * block that was too short for a request, and what alignment skipped.
 */
#ifndef SA_PAGEMAP_ARENA_H
#define SA_PAGEMAP_ARENA_H

#include <stddef.h>

/* Bytes, and the number of blocks mapped so far. */
struct sa_arena_stats {
    size_t mapped_bytes;
    size_t allocated_bytes;
    size_t unallocated_bytes;
    size_t unavailable_bytes;
    size_t blocks;
};

/* Zeroed memory with at least the alignment (a power of two <= 4096); NULL when out of memory. */
void *sa_arena_alloc(size_t bytes, size_t align);

/* Maps memory for that many bytes of records that are to come, unless there is as much, and touches
 * it. */
void sa_arena_reserve(size_t bytes);

/* Copies the statistics, with the lock held. */
void sa_arena_stats(struct sa_arena_stats *ret);

#endif
