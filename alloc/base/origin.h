/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a block was allocated, in a byte: the family of functions in bits 6 and 7, the binary
 * logarithm of the alignment that was asked for in the others (0: none). A call that frees has an
 * origin, too: that of the blocks that it may have.
 */
#ifndef SA_BASE_ORIGIN_H
#define SA_BASE_ORIGIN_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"

#include <stdbool.h>
#include <stddef.h>

enum sa_family {
    SA_FAMILY_MALLOC, /* malloc and all of C; freed by free, and resized by realloc */
    SA_FAMILY_NEW,
    SA_FAMILY_ARRAY, /* new[] */
};

#define SA_ORIGIN_FAMILY    6 /* its first bit */
#define SA_ORIGIN_ALIGN_LOG 0x3fu
#define SA_ORIGIN_UNKNOWN   0xffu

/* The alignment that was asked for; 1: none. */
SA_INLINE size_t sa_origin_align(unsigned origin)
{
    return (size_t)1 << (origin & SA_ORIGIN_ALIGN_LOG);
}

/*
 * Whether a block may be freed by a call: the family is the same, and so is the alignment, which
 * free and realloc are not told.
 */
SA_INLINE bool sa_origin_fits(unsigned block, unsigned call)
{
    return call >> SA_ORIGIN_FAMILY ? block == call : block >> SA_ORIGIN_FAMILY == SA_FAMILY_MALLOC;
}

#endif
