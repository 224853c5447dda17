/* SPDX-License-Identifier: Apache-2.0 */
/* How the hugepage-aware heap releases memory: what its own files use. The heap's lock is held,
 * and dropped around system calls. */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_HEAP_RELEASE_H
#define SA_PAGE_HEAP_HUGE_HUGE_HEAP_RELEASE_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/huge/huge_supply.h"

/* Releases a moving range. False: the kernel refused, and the range is cached. */
bool sa_huge_heap_move(struct sa_huge_heap *h, const struct sa_huge_moving *moving)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Called when memory has come back: releases the moving ranges and the surplus. Releases the lock.
 */
void sa_huge_heap_settle(struct sa_huge_heap *h, const struct sa_huge_moving moving[2])
    SA_RELEASE(SA_RANK_PAGE_HEAP);

/* Unmaps as much as a span of that many pages needs, if that much is unbacked. The lock is not
 * held. */
bool sa_huge_heap_make_room(struct sa_huge_heap *h, size_t pages) SA_EXCLUDES(SA_RANK_PAGE_HEAP);

#endif
