/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for salloc's own records: carved from blocks in order, never given back; small ones lie
 * together, apart from large ones. Records that come and go are kept on free lists by their owners.
 * Fresh memory is zero.
 *
 * Identity, used by the stats: mapped = allocated + unallocated + unavailable, where unavailable is
 * what was left of a block when a larger request opened the next one.
 */
#ifndef SA_PAGEMAP_ARENA_H
#define SA_PAGEMAP_ARENA_H

#include <stddef.h>

struct sa_arena_stats {
    size_t mapped_bytes;
    size_t allocated_bytes;
    size_t unallocated_bytes;
    size_t unavailable_bytes;
    size_t blocks;
};

/* Zeroed memory with at least the alignment (a power of two <= 4096); NULL when out of memory. */
void *sa_arena_alloc(size_t bytes, size_t align);

void sa_arena_stats(struct sa_arena_stats *ret);

#endif
