/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages of a fixed run are taken: a bitmap, and the length of the longest free run. The run
 * is a hugepage (256 pages) or a region (131072 pages).
 *
 * The words belong to the struct that embeds the tracker, and are zero at first. No lock of its
 * own. Positions and lengths are in pages. A range that is passed in lies inside the run.
 */
#ifndef SA_PAGE_HEAP_HUGE_RANGE_TRACKER_H
#define SA_PAGE_HEAP_HUGE_RANGE_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_range_tracker {
    uint64_t *words; /* bit set = page taken */
    uint32_t pages;  /* length of the run, a multiple of 64 */
    uint32_t taken;
    uint32_t longest;     /* length of the longest free run */
    uint32_t allocations; /* ranges taken by alloc and take, less those given back by put */
};

void sa_range_init(struct sa_range_tracker *t, uint64_t *words, uint32_t pages);

/*
 * Takes n pages at a multiple of align (a power of two), in the shortest free run that holds them,
 * and the first of these. Returns the position, or -1.
 */
long sa_range_alloc(struct sa_range_tracker *t, uint32_t n, uint32_t align);

/* Takes [at, at + n), which must be free; counts as an allocation if `counted`. */
void sa_range_take(struct sa_range_tracker *t, uint32_t at, uint32_t n, bool counted);

/* Takes the first n pages of an empty run. Counts as an allocation. */
void sa_range_take_first(struct sa_range_tracker *t, uint32_t n);

/* Takes [at, at + n) back. Requires: all of it is taken. */
void sa_range_put(struct sa_range_tracker *t, uint32_t at, uint32_t n, bool counted);

/* True if [at, at + n) is free. False if it does not lie in the run. */
bool sa_range_is_free(const struct sa_range_tracker *t, uint32_t at, uint32_t n);

/* Ends the program if the counts are not those of the bitmap: huge_filler_validate.c. */
void sa_range_validate(const struct sa_range_tracker *t);

/* On plain bitmaps: the first position from `from` on whose bit is `set`, or `bits`. */
uint32_t sa_bits_next(const uint64_t *words, uint32_t bits, uint32_t from, bool set);

void sa_bits_fill(uint64_t *words, uint32_t at, uint32_t n, bool set);

/* The number of bits that are set in [at, at + n). */
uint32_t sa_bits_count(const uint64_t *words, uint32_t at, uint32_t n);

#endif
