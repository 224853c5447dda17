/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hugepage-aware page heap, which serves ordinary spans: the functions of page_heap.h for this
 * kind of heap. Each takes the heap's lock (PAGE_HEAP) itself. huge_heap_internal.h has the struct,
 * its invariants, and the components that a span may lie in.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_HEAP_H
#define SA_PAGE_HEAP_HUGE_HUGE_HEAP_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/account/heap_types.h"

struct sa_huge_heap;
struct sa_huge_stats;

/* The instance. */
extern struct sa_huge_heap sa_huge_heap_ordinary;

void sa_huge_heap_init(struct sa_huge_heap *h, uint8_t number, const char *name, uintptr_t hint,
                       uintptr_t far);

struct sa_span *sa_huge_heap_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                                   enum sa_pages_use use) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_free(struct sa_huge_heap *h, struct sa_span *span, bool zero)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_span_emptied(struct sa_huge_heap *h, struct sa_span *span)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
bool sa_huge_heap_extend(struct sa_huge_heap *h, struct sa_span *span, size_t pages)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_shrink(struct sa_huge_heap *h, struct sa_span *span, size_t pages)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

struct sa_span *sa_huge_heap_split(struct sa_huge_heap *h, struct sa_span *span, size_t pages)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

bool sa_huge_heap_join(struct sa_huge_heap *h, struct sa_span *span, struct sa_span *next)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

void sa_huge_heap_prepare(struct sa_huge_heap *h) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
size_t sa_huge_heap_release(struct sa_huge_heap *h, size_t bytes) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_unmap(struct sa_huge_heap *h, size_t bytes) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
bool sa_huge_heap_tick(struct sa_huge_heap *h, uint64_t now_ns) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
bool sa_huge_heap_step(struct sa_huge_heap *h) SA_EXCLUDES(SA_RANK_PAGE_HEAP);

/* Releases all cached hugepages and empty hugepages of regions, one call for each range, so that
 * they coalesce with unbacked ranges. Returns the bytes released. */
size_t sa_huge_heap_gather(struct sa_huge_heap *h) SA_EXCLUDES(SA_RANK_PAGE_HEAP);

/* True if sa_huge_heap_collapse may find work now. The two are apart, because few programs run the
 * code that makes hugepages. */
bool sa_huge_heap_collapse_due(struct sa_huge_heap *h) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
uint64_t sa_huge_heap_collapse(struct sa_huge_heap *h, uint64_t max_ns)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP); /* thp_collapse.c */

void sa_huge_heap_set_hugepages(struct sa_huge_heap *h, enum sa_hugepages choice);

uint64_t sa_huge_heap_freed(const struct sa_huge_heap *h);
bool sa_huge_heap_is_free(struct sa_huge_heap *h, uintptr_t address) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_stats(struct sa_huge_heap *h, struct sa_page_heap_stats *ret)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_report(struct sa_huge_heap *h, struct sa_huge_stats *ret)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

/* Ends the program if an invariant does not hold; the lock is held: huge_validate.c. Debug builds
 * call it at ticks. */
void sa_huge_heap_validate(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The addresses that the heap has ever mapped lie in [*ret_start, *ret_end). */
void sa_huge_heap_range(struct sa_huge_heap *h, uintptr_t *ret_start, uintptr_t *ret_end)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);

#endif
