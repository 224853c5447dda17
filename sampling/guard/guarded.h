/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarded blocks: blocks in slots between inaccessible pages, so that an access beyond one side of
 * the block faults. There is a pool of slots of one page, and a smaller one whose slots hold
 * objects of any class. A pool is mapped at its first use. A block lies at the beginning or at the
 * end of its slot, at random. The rest of its pages, beside the block, holds a pattern, which is
 * checked when the block is freed. All other pages of a slot are inaccessible, and so is a free
 * slot. The next slot is picked at random.
 *
 * The pages of a block are accessible exactly while its slot is LIVE, CHECKED or BUSY. The lock
 * GUARDED guards the counts and the change from FREE to BUSY. It is not held while the kernel
 * changes the protection: the slot is BUSY then, and belongs to the thread that changes it. The
 * rest of a slot belongs to the owner of the block. Any thread may read histories.
 *
 * The pools lie in the sampled window, so that the fast paths leave their blocks to the slow path.
 * The radix map finds a span for each slot. That span has the state GUARDED and a heap number of
 * its own, so that no other code uses it.
 */
#ifndef SA_SAMPLING_GUARD_GUARDED_H
#define SA_SAMPLING_GUARD_GUARDED_H

#include "include/salloc/profile.h"
#include "pagemap/span.h"
#include "sampling/stack/block_history.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The maximum of slots of one page. Each slot in use is a mapping of its own. */
#define SA_GUARDED_MAX 16384

/*
 * The pattern. The block's own bytes hold it at first, too, on each page of which the block has
 * only a part. On such pages the residency profile could not tell otherwise what the program has
 * touched.
 */
#define SA_GUARDED_FILL 0xcb

struct sa_guarded_stats {
    uint64_t succeeded;   /* blocks guarded since the start */
    uint64_t failed;      /* no slot was free, or the kernel refused */
    uint64_t skipped;     /* see struct sa_guard_policy_stats */
    uint64_t large;       /* requested, but too large for a slot */
    size_t allocated;     /* slots in use */
    size_t quarantined;   /* slots that are free, and inaccessible */
    size_t max_allocated; /* high-water mark of slots in use */
    size_t allowed;       /* maximum of slots in use */
    size_t slots;         /* mapped; 0: no block was guarded yet */
    uint64_t every;       /* one sample in `every` is guarded; 0: none */
};

/* Sets the sizes of the pools, before the first allocation. slots: of one page, at most
 * SA_GUARDED_MAX. There is 1/8 of that for larger blocks. Half of either pool can be in use. seed:
 * of the random draws. */
void sa_guarded_init(size_t slots, uint64_t seed);

/* In the hardened mode, before the first allocation: blocks of 0 bytes lie in a pool of their own,
 * half of which can be in use. Its slots are never accessible. */
void sa_guarded_init_zero(size_t slots);

/* In a child of fork: seeds the random draws. */
void sa_guarded_seed(uint64_t seed);

/*
 * Allocates a guarded block, and returns its span, which has no sample yet; sa_guarded_start gives
 * its address. NULL: no slot is free, the kernel refused, or the block is too large. *ret_status is
 * SALLOC_GUARDED_GUARDED or the reason why not. The block holds a reference to `stack` until it is
 * freed. Makes system calls; the caller holds no lock.
 */
struct sa_span *sa_guarded_alloc(size_t requested, size_t align, unsigned cls,
                                 struct sa_stack *stack, enum salloc_guarded_status *ret_status);

/* True if a span, of any kind, is a slot of guarded blocks. */
SA_INLINE bool sa_guarded_span(const struct sa_span *span)
{
    return sa_load_relaxed(&span->state) == SA_SPAN_GUARDED;
}

/* The bytes of a block in use that the program may use: the requested bytes, but 1 for a block of 0
 * bytes, unless such blocks are inaccessible (sa_guarded_init_zero). The caller owns the block. */
size_t sa_guarded_bytes(const struct sa_span *span);

/* For a guarded span: the start of its block, 0 if none is in use; and the size class that stands
 * for the block. */
uintptr_t sa_guarded_start(const struct sa_span *span);
unsigned sa_guarded_class(const struct sa_span *span);

/*
 * The object of a size class that stands for a guarded block without a sample
 * (alloc/hardening/watched.h). NULL if the block has a sample. The caller owns the block.
 */
void sa_guarded_set_object(struct sa_span *span, void *object);
void *sa_guarded_object(const struct sa_span *span);

/* Reports memory beside a block in use that was written, and returns. The block belongs to the
 * caller, who is about to free it. */
void sa_guarded_check(const struct sa_span *span);

/*
 * Take a block out of use in two steps, between which the block belongs to the caller.
 * sa_guarded_claim returns false if another caller has claimed or freed the block. Hardened, it
 * does not return if memory beside the block was written: it reports that, and aborts.
 * sa_guarded_free takes over the reference to `freed`, which may be NULL, and makes the slot
 * inaccessible. The caller holds no lock.
 */
bool sa_guarded_claim(struct sa_span *span);
void sa_guarded_free(struct sa_span *span, struct sa_stack *freed);

/* Checks the memory beside all blocks in use. If some was written, reports that and aborts. */
void sa_guarded_inspect(void);

/* Looks up an address in the pools; false: the address is elsewhere. Async-signal-safe; no lock. */
bool sa_guarded_find(uintptr_t address, struct sa_lookup *ret);

void sa_guarded_stats(struct sa_guarded_stats *ret);

#endif
