/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large blocks: blocks that are a span of their own, because they exceed the largest class or are
 * aligned to more than a page.
 *
 * A block belongs to the thread that allocates, resizes or frees it. The functions that allocate
 * and free are called inside the gate and without a lock.
 */
#ifndef SA_FRONT_LARGE_H
#define SA_FRONT_LARGE_H

#include "alloc/base/bits.h"
#include "alloc/base/hardening.h"
#include "alloc/base/thread_safety.h"
#include "pagemap/span.h"
#include "sampling/sampler/sampler.h"

/* True if the program may use only the bytes that it requested, so that the slack behind them shows
 * overflows. */
SA_INLINE bool sa_large_is_exact(const struct sa_span *span)
{
    return SA_UNLIKELY(sa_hardening.inspect) && (sa_hardening.canaries || span->guard);
}

/* The pages for `size` bytes, without a guard. */
SA_INLINE size_t sa_large_pages(size_t size)
{
    return (sa_max(size, 1) + SA_PAGE_BYTES - 1) >> SA_PAGE_SHIFT;
}

/* Totals since the start. A block that changes its length in place counts as freed and
 * allocated. */
struct sa_large_counts {
    uint64_t allocations, allocations_bytes, frees, frees_bytes;
};

void sa_large_counts(struct sa_large_counts *ret);

/* The bytes that a block of this size takes, with its guard. 0: the size is impossible. */
size_t sa_large_estimate(size_t size);

/* Sets the maximum number of large blocks with a guard. Called before the first allocation. */
void sa_large_init(size_t guards);

/* Allocates a large block; NULL: there is no memory. align: any power of two. *zero says whether
 * the content should be zero, and on return whether it is known to be zero. */
void *sa_large_alloc(size_t size, size_t align, bool *zero) SA_INSIDE_GATE;
/* Makes a large block of a size that has a class, with the class's successful sampling decision. */
void *sa_large_alloc_sampled(size_t size, size_t align, size_t class_bytes,
                             struct sa_sampling_decision *decision) SA_INSIDE_GATE;
/* Frees a large block. */
void sa_large_free(struct sa_span *span) SA_INSIDE_GATE;

/* Makes a span in use a block, with a sampling decision of its own. Returns the block. */
void *sa_large_begin(struct sa_span *span, size_t size, size_t align) SA_INSIDE_GATE;

/* Changes the size in place. False: the block has to move. */
bool sa_large_resize(struct sa_span *span, size_t size) SA_INSIDE_GATE;

/* Moves a block to a new span, by moving its pages or, up to 2 MiB, by a copy. NULL: the block is
 * unchanged, and the caller copies it. */
void *sa_large_move(struct sa_span *span, size_t size) SA_INSIDE_GATE;

#endif
