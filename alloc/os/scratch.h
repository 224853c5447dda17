/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch memory: lends a function memory for arrays that are too large for its caller's stack.
 *
 * malloc and free run on stacks of 8 KiB: those of coroutines, and alternate signal stacks. So the
 * slow paths keep no array of more than a few words on the stack. They borrow one of SA_SCRATCHES
 * blocks instead, and give it back before they return. Only data moves: the stack pointer stays on
 * the caller's stack, so signal handlers, collectors that scan stacks, debuggers and shadow stacks
 * see nothing unusual.
 *
 * A block may be missing: all of them can be taken at a time, by threads that were preempted and by
 * the code that signal handlers have interrupted. Each caller says what it does then: it works with
 * a few words of its own, or leaves the work for later. No caller waits.
 *
 * Concurrency. The word `taken` of a block is changed by a compare-and-swap with acquire order from
 * 0, and by a store of 0 with release order from its owner. It orders the contents of the block. A
 * thread begins its search at the number of its CPU, so two threads rarely meet. A child of fork
 * finds blocks of other threads taken only where the fork gate was passed over (vfork, _Fork).
 */
#ifndef SA_OS_SCRATCH_H
#define SA_OS_SCRATCH_H

#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"

#include <stddef.h>

#define SA_SCRATCHES     32
#define SA_SCRATCH_BYTES (16384 - 64) /* of each block */

/* Borrows a block, aligned to a cache line, with any content. NULL: all blocks are taken. */
void *sa_scratch_take(void);

/* Gives a block back. NULL: does nothing. */
void sa_scratch_give(void *block);

/* An array of pointers for a batch of objects: a block, or SA_BATCH_FEW words of the caller's. */
#define SA_BATCH_FEW 16
#define SA_BATCH_MAX (SA_SCRATCH_BYTES / sizeof(void *))

struct sa_batch {
    void **objs;
    size_t max;  /* pointers that fit */
    void *block; /* for sa_batch_end */
};

SA_INLINE struct sa_batch sa_batch_begin(void *few[SA_BATCH_FEW])
{
    void *block = sa_scratch_take();

    return block ? (struct sa_batch){block, SA_BATCH_MAX, block}
                 : (struct sa_batch){few, SA_BATCH_FEW, NULL};
}

SA_INLINE void sa_batch_end(const struct sa_batch *b)
{
    sa_scratch_give(b->block);
}

#endif
