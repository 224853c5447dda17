/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of the stack table, for the files that make it up: stack_table.c changes it, and
 * stack_table_validate.c checks it. stack_table.c describes the design. STACKS guards all fields.
 */
#ifndef SA_SAMPLING_STACK_STACK_TABLE_INTERNAL_H
#define SA_SAMPLING_STACK_STACK_TABLE_INTERNAL_H

#include "alloc/base/attrs.h"
#include "alloc/base/thread_safety.h"
#include "alloc/os/lock.h"
#include "sampling/stack/stack.h"

#include <stddef.h>
#include <stdint.h>

#define STACK_BLOCK_BYTES 4096
#define STACK_BUCKETS_MAX (1u << 16)
#define STACK_BUCKETS_MIN 512 /* in use at first: one page of pointers */

/* The slot sizes: the frames that fit into a slot. */
static const uint8_t stack_slot_frames[] = {4, 8, 12, 16, 24, 32, 48, SA_STACK_MAX};
#define STACK_SLOT_SIZES (sizeof(stack_slot_frames) / sizeof(*stack_slot_frames))

/* A node of a ring: a head or a member. */
struct stack_ring {
    struct stack_ring *prev, *next; /* NULL: in no ring */
};

/* The header at the start of each block, under STACKS. Bit n of a mask stands for slot n. */
struct stack_block {
    struct stack_ring ready; /* in table.ready[size] while the block has an idle slot */
    struct stack_ring quiet; /* in table.quiet while the block has stacks, but no live slot */
    uint32_t taken;          /* mask: slots with a stack, live or idle */
    uint32_t live;           /* mask: slots whose stack has references; part of taken */
    uint32_t used;           /* mask: stacks found again since the clock hand last passed */
    uint32_t ready_since;    /* table.now when the block entered the ready ring */
    uint32_t quiet_since;    /* table.now when the block entered the quiet ring */
    uint8_t size;            /* index into stack_slot_frames */
    uint8_t pad[11];
};

SA_STATIC_ASSERT(sizeof(struct stack_block) == SA_CACHELINE, "slots begin on a line of their own");
SA_STATIC_ASSERT(sizeof(struct sa_stack) % 8 == 0, "slots are aligned");

/* STACKS guards all fields. */
struct stack_table {
    struct sa_lock lock;
    /* STACK_BUCKETS_MAX of them. NULL: no stack was ever added. */
    struct sa_stack **buckets SA_GUARDED_BY(SA_RANK_STACKS);
    uint32_t used SA_GUARDED_BY(SA_RANK_STACKS); /* buckets in use */
    uint32_t half SA_GUARDED_BY(SA_RANK_STACKS); /* a power of two: half <= used < 2 half */
    /* The block of each size that has free slots, or NULL. */
    struct stack_block *carving[STACK_SLOT_SIZES] SA_GUARDED_BY(SA_RANK_STACKS);
    /* Heads: blocks with an idle slot, and blocks without a live one. Longest waiting first. */
    struct stack_ring ready[STACK_SLOT_SIZES] SA_GUARDED_BY(SA_RANK_STACKS);
    struct stack_ring quiet SA_GUARDED_BY(SA_RANK_STACKS);
    /* The part of the last mapping that is not cut yet. */
    uintptr_t next SA_GUARDED_BY(SA_RANK_STACKS), end SA_GUARDED_BY(SA_RANK_STACKS);
    size_t chunk SA_GUARDED_BY(SA_RANK_STACKS); /* bytes of the next mapping */
    /* Stacks ever added: the clock of ready_since and quiet_since. */
    uint32_t now SA_GUARDED_BY(SA_RANK_STACKS);
    struct sa_sums evicted SA_GUARDED_BY(SA_RANK_STACKS); /* totals of evicted stacks */
    struct sa_stack_stats stats SA_GUARDED_BY(SA_RANK_STACKS);
};

SA_INLINE size_t stack_slot_bytes(unsigned size)
{
    return sizeof(struct sa_stack) + stack_slot_frames[size] * sizeof(uintptr_t);
}

SA_INLINE unsigned stack_slots_of(unsigned size)
{
    return (unsigned)((STACK_BLOCK_BYTES - sizeof(struct stack_block)) / stack_slot_bytes(size));
}

SA_INLINE struct sa_stack *stack_in_slot(struct stack_block *b, unsigned slot)
{
    return (struct sa_stack *)((char *)(b + 1) + slot * stack_slot_bytes(b->size));
}

SA_INLINE struct stack_block *stack_block_of(const struct sa_stack *s)
{
    return (struct stack_block *)((uintptr_t)s & ~(uintptr_t)(STACK_BLOCK_BYTES - 1));
}

/* Returns the bucket of a hash: by one bit more than those of half, if that bucket is in use. */
SA_INLINE struct sa_stack **stack_bucket_of(const struct stack_table *t, uint64_t hash)
    SA_REQUIRES(SA_RANK_STACKS)
{
    uint32_t at = hash & (2 * t->half - 1);

    return &t->buckets[at < t->used ? at : at - t->half];
}

/* Returns the block of a node of a ready ring, and that of a node of the quiet ring. */
SA_INLINE struct stack_block *stack_ready_block(struct stack_ring *l)
{
    return (struct stack_block *)((char *)l - offsetof(struct stack_block, ready));
}

SA_INLINE struct stack_block *stack_quiet_block(struct stack_ring *l)
{
    return (struct stack_block *)((char *)l - offsetof(struct stack_block, quiet));
}

/* Returns the hash of a stack. The constants are those of MurmurHash3's 64-bit finalizer. */
SA_INLINE uint64_t stack_hash_of(const uintptr_t *pc, unsigned depth)
{
    uint64_t a = depth, b = 0x9e3779b97f4a7c15, last = 0;
    unsigned i;

    for (i = 0; i + 1 < depth; i += 2) { /* two chains, so that the CPU overlaps multiplications */
        a = (a ^ pc[i]) * 0xff51afd7ed558ccd;
        b = (b ^ pc[i + 1]) * 0xc4ceb9fe1a85ec53;
        a ^= a >> 32;
        b ^= b >> 29;
    }
    if (i < depth)
        last = pc[i] * 0xff51afd7ed558ccd;
    a = (a ^ (b >> 7) ^ last ^ last >> 31) * 0xc4ceb9fe1a85ec53 + b;
    return a ^ a >> 33;
}

/* Does what sa_stack_unload does. Stacks move to other buckets. */
void sa_stack_table_unload(struct stack_table *t, uintptr_t start, uintptr_t end, uintptr_t base,
                           const char *name) SA_REQUIRES(SA_RANK_STACKS);

/* Checks the invariants (sa_stack_table_validate). Requires STACKS. */
void sa_stack_table_check(const struct stack_table *t) SA_REQUIRES(SA_RANK_STACKS);

#endif
