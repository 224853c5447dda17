/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that another function frees than the one that belongs to what allocated them: new and
 * free, malloc and delete, new[] and delete, operators with an alignment and operators without one.
 *
 * A sampled block is reported, once for each stack, and the program goes on. Where blocks have
 * marks, all are looked at, and the first mismatch ends the program. Of other blocks nothing is
 * known. The block belongs to the caller: nothing is shared.
 */
#ifndef SA_FRONT_MISMATCH_H
#define SA_FRONT_MISMATCH_H

#include "alloc/base/attrs.h"
#include "alloc/base/hardening.h"
#include "alloc/base/origin.h"
#include "alloc/base/size_class.h"
#include "alloc/front/block.h"
#include "alloc/os/thread.h"

/* Whether mismatches are looked at. Const after initialisation. */
extern bool sa_mismatch_on SA_HIDDEN;

/* call: the origin that the block should have. Outside of the gate, as a report may take long. */
SA_COLD void sa_mismatch_found(const struct sa_block *b, const void *p, unsigned call,
                               bool resized);

/* Looks whether the function that was called may free or resize the block. align: as for
 * sa_front_free_aligned. */
SA_INLINE void sa_mismatch_check(const struct sa_block *b, const void *p, size_t align,
                                 bool resized)
{
    unsigned call = sa_caller_origin(align);

    if (SA_UNLIKELY(b->origin != SA_ORIGIN_UNKNOWN && align && !sa_origin_fits(b->origin, call)))
        sa_mismatch_found(b, p, call, resized);
}

/*
 * Ends the program if a sized free names another size or alignment than the block was allocated
 * with, as far as the block can tell. Of a sampled one what was asked for is known; but a program
 * may also name what malloc_usable_size told it.
 */
void sa_mismatch_check_sized(const struct sa_block *b, const void *p, size_t size, size_t align);

/* A block that another library's operator had from malloc becomes one of the operator's. */
SA_COLD void sa_mismatch_adopt(void *p, unsigned origin);

#endif
