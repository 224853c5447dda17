/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The origin of a block: how it was allocated, in one byte. Bits 6 and 7 hold the family of
 * functions, bits 0 to 5 the binary logarithm of the requested alignment (0: none). A call that
 * frees has an origin as well: that of the blocks that it may free. No state.
 */
#ifndef SA_BASE_ORIGIN_H
#define SA_BASE_ORIGIN_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"

#include <stdbool.h>
#include <stddef.h>

enum sa_family {
    /* malloc and the other functions of C; freed by free, and resized by realloc */
    SA_FAMILY_MALLOC,
    SA_FAMILY_NEW,
    SA_FAMILY_ARRAY, /* new[] */
};

#define SA_ORIGIN_FAMILY    6 /* the lowest bit of the family */
#define SA_ORIGIN_ALIGN_LOG 0x3fu
#define SA_ORIGIN_UNKNOWN   0xffu

/* The requested alignment; 1: none. */
SA_INLINE size_t sa_origin_align(unsigned origin)
{
    return (size_t)1 << (origin & SA_ORIGIN_ALIGN_LOG);
}

/* True if a call may free a block: the family is the same and, for the C++ operators, the alignment
 * as well. free and realloc are not told an alignment, so any block of C fits. */
SA_INLINE bool sa_origin_fits(unsigned block, unsigned call)
{
    return call >> SA_ORIGIN_FAMILY ? block == call : block >> SA_ORIGIN_FAMILY == SA_FAMILY_MALLOC;
}

#endif
