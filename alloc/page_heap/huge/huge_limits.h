/* SPDX-License-Identifier: Apache-2.0 */
/* The limits (limits.h) as they apply to the hugepage-aware heap. The heap's lock is held. */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_LIMITS_H
#define SA_PAGE_HEAP_HUGE_HUGE_LIMITS_H

#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stddef.h>

struct sa_huge_heap;

/* Begins a request. False: the span is a hugepage or longer and beyond the hard limit wherever it
 * is placed, as far as that can be told. No address space is mapped for it then. */
bool sa_huge_heap_begin(struct sa_huge_heap *h, size_t pages) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* True if the request may take `pages` more unbacked pages into use. Called before anything of the
 * heap is changed. From then on, other heaps see them as used. False: `over` says why. */
bool sa_huge_heap_admits(struct sa_huge_heap *h, size_t pages) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Notes that a span has grown in place, and that `before` pages were backed before. */
void sa_huge_heap_grew(struct sa_huge_heap *h, size_t before) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* True if a span may take up to `pages` more unbacked pages, as far as that can be told before. */
bool sa_huge_heap_may_grow(const struct sa_huge_heap *h, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The free pages to release at once because of a limit. */
size_t sa_huge_heap_limit_surplus(const struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
