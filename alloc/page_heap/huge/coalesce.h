/* SPDX-License-Identifier: Apache-2.0 */
/* Coalescing: ranges that are partly cached and partly unbacked, for large spans. See coalesce.c.
 * The heap's lock is held. The caller counts the usage. */
#ifndef SA_PAGE_HEAP_HUGE_COALESCE_H
#define SA_PAGE_HEAP_HUGE_COALESCE_H

#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stddef.h>

struct sa_huge_heap;

/* Takes n hugepages, of which more than half are cached. SA_HUGE_NONE: there are none. Sets
 * *ret_last_fresh to whether the last of them is unbacked. */
size_t sa_huge_heap_coalesce(struct sa_huge_heap *h, size_t n, bool *ret_last_fresh)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Takes exactly these hugepages, if all are free and any is cached. */
bool sa_huge_heap_coalesce_at(struct sa_huge_heap *h, size_t start, size_t n, bool *ret_last_fresh)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
