/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded blocks: pools of slots with inaccessible pages between them, mapped when the first is
 * wanted; one with slots of a page, one with fewer that hold objects of any class. A block lies at
 * the beginning or at the end of its slot, at random, so that an access beyond that side of it
 * faults; what is left of its pages beside the block holds a pattern, which is checked when it is
 * freed. All else of a slot is inaccessible, and all of it when it is free; which one is used next
 * is random.
 *
 * The pages of a block are accessible exactly while its slot is LIVE or BUSY. Its state, and the
 * counts, are under GUARDED, which is not held while the kernel changes the protection: the slot is
 * BUSY then, and belongs to the thread that does it. The rest of a slot belongs to the block's
 * owner; histories are read by anybody.
 *
 * The pools lie in the sampled window, so that the fast paths leave their blocks alone, and each
 * slot has a span, which the map finds: of a heap of its own and in the state GUARDED, so that
 * nobody takes it for anything else.
 */
#ifndef SA_SAMPLING_GUARD_GUARDED_H
#define SA_SAMPLING_GUARD_GUARDED_H

#include "include/salloc/profile.h"
#include "pagemap/span.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_GUARDED_MAX                                                                             \
    16384 /* slots of a page; each is a mapping of its own while it is in use                      \
           */

/*
 * The pattern. The block's own bytes hold it, too, at first, on each page of which the block has
 * only a part: there the residency profile could not tell otherwise what the program has touched.
 */
#define SA_GUARDED_FILL 0xcb

struct sa_guarded_stats {
    uint64_t succeeded;    /* blocks ever guarded */
    uint64_t failed;       /* no slot free, or the kernel refused */
    uint64_t skipped;      /* the stack had its share */
    uint64_t large;        /* chosen, but too large for a slot */
    size_t allocated;      /* slots in use */
    size_t quarantined;    /* slots that are free, and inaccessible */
    size_t most_allocated; /* slots in use at any time */
    size_t allowed;        /* slots in use, at most */
    size_t slots;          /* 0: nothing was guarded yet */
    uint64_t every;        /* one sample in so many; 0: none */
};

/* Before the first allocation. slots: at most so many, and an eighth of them for larger blocks;
 * half of either can be in use. */
void sa_guarded_init(size_t slots, uint64_t seed);

/*
 * Hardened, the same: blocks of no bytes lie in so many slots of their own, half of which can be in
 * use. Nothing of these is ever accessible.
 */
void sa_guarded_init_zero(size_t slots);

/* The random draws from now on: in a child of fork. */
void sa_guarded_seed(uint64_t seed);

/*
 * A guarded block, whose stack is referred to meanwhile; NULL: no slot, or too large. The block is
 * given by its span, which has no sample yet; sa_guarded_start tells where it is. ret_status:
 * GUARDED, or why not.
 */
struct sa_span *sa_guarded_alloc(size_t requested, size_t align, unsigned cls,
                                 struct sa_stack *stack, enum salloc_guarded_status *ret_status);

/* Of any span. */
SA_INLINE bool sa_guarded_span(const struct sa_span *span)
{
    return sa_load_relaxed(&span->state) == SA_SPAN_GUARDED;
}

/* Bytes of a block in use that the program may use: what was asked for, and one of a block of none,
 * unless those have no access at all (sa_guarded_init_zero). */
size_t sa_guarded_bytes(const struct sa_span *span);

/* Of a guarded span: the block's start if it is in use, else 0; the class that stands for it. */
uintptr_t sa_guarded_start(const struct sa_span *span);
unsigned sa_guarded_class(const struct sa_span *span);

/*
 * The object of a class that stands for a guarded block without a sample
 * (alloc/hardening/watched.h), for the owner of the block; NULL where there is a sample.
 */
void sa_guarded_set_object(struct sa_span *span, void *object);
void *sa_guarded_object(const struct sa_span *span);

/*
 * Takes a block out of use, in two steps, between which it belongs to the caller. The first fails
 * if somebody else has done it, and does not return if memory beside the block was written; the
 * second takes the reference to the stack over, which may be NULL.
 */
bool sa_guarded_claim(struct sa_span *span);
void sa_guarded_free(struct sa_span *span, struct sa_stack *freed);

/* Looks for memory beside the blocks in use that was written; does not return if some was. */
void sa_guarded_inspect(void);

/* What is known of an address in the pool; false: it is elsewhere. For signal handlers too. */
bool sa_guarded_find(uintptr_t address, struct sa_lookup *ret);

void sa_guarded_stats(struct sa_guarded_stats *ret);

#endif
