/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects blocks that are freed by the wrong function: new and free, malloc and delete, new[] and
 * delete, an operator with an alignment and one without; and frees that name a size or an alignment
 * that the block does not have.
 *
 * By default a mismatch is reported once for each stack, and the program continues: the block is
 * freed as what it is. Only sampled blocks know how they were allocated. Of other blocks of a class
 * the page knows the class. In the hardened mode every block has a canary with its origin and size,
 * and the first mismatch ends the program.
 *
 * The block belongs to the caller. The only shared word is sa_mismatch_on.
 */
#ifndef SA_FRONT_MISMATCH_H
#define SA_FRONT_MISMATCH_H

#include "alloc/base/attrs.h"
#include "alloc/base/hardening.h"
#include "alloc/base/origin.h"
#include "alloc/base/size_class.h"
#include "alloc/base/thread_safety.h"
#include "alloc/front/block.h"
#include "alloc/os/thread.h"

/* True if mismatches are reported. Constant after start-up. */
extern bool sa_mismatch_on SA_HIDDEN;

/* Reports a mismatch. call: the origin that the block should have. Called outside the gate, because
 * a report may take long. */
SA_COLD void sa_mismatch_found(const struct sa_block *b, const void *p, unsigned call,
                               bool resized) SA_OUTSIDE_GATE;

/* Checks that the function that was called may free or resize the block. align: as for
 * sa_front_free_aligned. */
SA_INLINE void sa_mismatch_check(const struct sa_block *b, const void *p, size_t align,
                                 bool resized)
{
    unsigned call = sa_caller_origin(align);

    if (SA_UNLIKELY(b->origin != SA_ORIGIN_UNKNOWN && align && !sa_origin_fits(b->origin, call)))
        sa_mismatch_found(b, p, call, resized);
}

/*
 * Reports that a sized free names another size or alignment than the block was allocated with, as
 * far as the block knows them. A sampled block knows its requested size. A program may also name
 * the size that malloc_usable_size returned. Called outside the gate, as sa_mismatch_found.
 */
void sa_mismatch_check_sized(const struct sa_block *b, const void *p, size_t size,
                             size_t align) SA_OUTSIDE_GATE;

/* Changes the origin of a block that libstdc++'s operator got from malloc to that of operator
 * new. */
SA_COLD void sa_mismatch_adopt(void *p, unsigned origin);

#endif
