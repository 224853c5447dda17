/* SPDX-License-Identifier: Apache-2.0 */
/* Large spans: those on hugepages of their own. Where the last hugepage is not full, it is in the
 * filler, donated. The heap's lock is held. */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_LARGE_SPANS_H
#define SA_PAGE_HEAP_HUGE_HUGE_LARGE_SPANS_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/huge/huge_supply.h"
#include "pagemap/span.h"

/* Makes the record a span of that many pages. NULL: there is no room, or a limit forbids it. */
struct sa_span *sa_huge_large_alloc(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                    size_t align) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Takes the span's pages back; zero: they are unbacked. The record stays. */
void sa_huge_large_free(struct sa_huge_heap *h, struct sa_span *s, bool zero,
                        struct sa_huge_moving *moving) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* extend and shrink change what the span holds, but not s->pages. False: nothing has changed. */
bool sa_huge_large_extend(struct sa_huge_heap *h, struct sa_span *s, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);
bool sa_huge_large_shrink(struct sa_huge_heap *h, struct sa_span *s, size_t pages, bool zero,
                          struct sa_huge_moving *moving) SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
