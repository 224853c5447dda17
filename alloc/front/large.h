/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that are spans of their own: above the largest class, or aligned to more than a page. */
#ifndef SA_FRONT_LARGE_H
#define SA_FRONT_LARGE_H

#include "alloc/base/bits.h"
#include "alloc/base/hardening.h"
#include "pagemap/span.h"

/* Whether that is what was asked for, and what lies behind it shows overflows. */
SA_INLINE bool sa_large_is_exact(const struct sa_span *span)
{
    return SA_UNLIKELY(sa_hardening.inspect) && (sa_hardening.marks || span->guard);
}

/* Pages for so many bytes, without what shows overflows. */
SA_INLINE size_t sa_large_pages(size_t size)
{
    return (sa_max(size, 1) + SA_PAGE_BYTES - 1) >> SA_PAGE_SHIFT;
}

/* Ever; a block that changes its length in place counts as freed and allocated. */
struct sa_large_counts {
    uint64_t allocations, allocations_bytes, frees, frees_bytes;
};

void sa_large_counts(struct sa_large_counts *ret);

/* Bytes that a block of the size takes, with what shows overflows; 0: there can be none. */
size_t sa_large_estimate(size_t size);

/* Before the first allocation: the most blocks that end before an inaccessible page at a time. */
void sa_large_init(size_t guards);

/* align: a power of two, any size. *zero: before, whether the content is to be zero; afterwards,
 * whether it is known to be. */
void *sa_large_alloc(size_t size, size_t align, bool *zero);
void sa_large_free(struct sa_span *span);

/* Makes a span a block, which is sampled or not: the block. */
void *sa_large_begin(struct sa_span *span, size_t size, size_t align);

/* Changes the size in place; false if that cannot be done. */
bool sa_large_resize(struct sa_span *span, size_t size);

/* Moves a block to a new span by moving its pages; NULL if it has to be copied. */
void *sa_large_move(struct sa_span *span, size_t size);

#endif
