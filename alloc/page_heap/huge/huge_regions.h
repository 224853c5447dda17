/* SPDX-License-Identifier: Apache-2.0 */
/* The regions of a heap: when one is made, which of them serves a request, and how they release
 * memory. huge_region.h is a single region. The heap's lock is held. */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_REGIONS_H
#define SA_PAGE_HEAP_HUGE_HUGE_REGIONS_H

#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_huge_heap;
struct sa_huge_region;

/* Takes pages of a region, of a new one if that is due. Returns the first page's place in *ret, or
 * -1. *ret_zero: the pages are unbacked. */
long sa_huge_heap_region_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                               struct sa_huge_region **ret, bool *ret_zero)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Releases up to `pages` pages, of hugepages with at least `least` free ones, and gives up regions
 * that are empty and unbacked. Drops the lock meanwhile. Returns the pages released. */
size_t sa_huge_heap_release_regions(struct sa_huge_heap *h, size_t pages, uint32_t min)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
