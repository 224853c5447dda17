/* SPDX-License-Identifier: Apache-2.0 */
/* What the hugepage-aware heap may keep of its free memory. The rest is its surplus, which the free
 * that caused it releases (huge_heap_release.c). The heap's lock is held. */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_HEAP_SURPLUS_H
#define SA_PAGE_HEAP_HUGE_HUGE_HEAP_SURPLUS_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/huge/huge_heap.h"

/* Whether the heap keeps little, because much memory is wasted. */
bool sa_huge_heap_is_lean(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Whether most of the heap was freed within the last second, and the program has not come back. */
bool sa_huge_heap_fell_most(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Sets sa_page_heap_fall. Called after frees, and at ticks after a fall. */
void sa_huge_heap_note_fall(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Cached hugepages that are likely to be needed. They are no surplus, however much is free. */
size_t sa_huge_heap_needed(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The pages to release at once, after a free. Also counts falls, and sets the ceiling of the cache.
 */
size_t sa_huge_heap_surplus(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* A request was served, before which `before` pages were backed. If it took pages that frees had
 * released, these are refaults. h->refault_credit: the pages that frees released, not 0. */
void sa_huge_heap_refaulted(struct sa_huge_heap *h, size_t before) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Forgets a part of the refaults, but not what was used since the last tick. unused: the pages that
 * were not; part: the time since then, divided by SA_RELEASE_NS. */
void sa_huge_heap_forget(struct sa_huge_heap *h, size_t unused, double part)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Keeps less while memory is wasted, unless the program has missed much. Called at each tick after
 * which some was missed, or more is kept. */
void sa_huge_heap_tick_lean(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Forgets falls by time. Called at each tick. */
void sa_huge_heap_forget_falls(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
