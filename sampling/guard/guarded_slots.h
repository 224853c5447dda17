/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of guarded blocks, for guarded.c and guarded_inspect.c only. */
#ifndef SA_SAMPLING_GUARD_GUARDED_SLOTS_H
#define SA_SAMPLING_GUARD_GUARDED_SLOTS_H

#include "alloc/os/lock.h"
#include "sampling/guard/guarded.h"

/* The pools: for blocks of up to a page, of any class, and of 0 bytes. */
enum { POOL_PAGE, POOL_LARGE, POOL_ZERO, POOLS };

/*
 * FREE -> BUSY (GUARDED) -> LIVE -> BUSY -> FREE (GUARDED). BUSY belongs to one thread.
 * CHECKED: live, while sa_guarded_inspect reads it. LOST: freed by a signal handler while CHECKED;
 * the slot is never used again.
 */
enum state { STATE_FREE, STATE_BUSY, STATE_LIVE, STATE_CHECKED, STATE_LOST };

/* The record of a slot, made when the slot is first used. */
struct slot {
    struct sa_span span; /* first: a pointer to it is a pointer to its slot */
    struct sa_block_history_slot history;
    uint8_t state; /* enum state; atomic */
    uint8_t cls;   /* the size class that stands for the block */
    uint8_t pool;  /* index of its pool; const */
    void *object;  /* atomic, relaxed: see sa_guarded_set_object */
};

/*
 * Slots of one length, each between two gaps that are never accessible. Records lie in the order of
 * first use, so that a program with few guarded blocks touches one page of records.
 */
struct pool {
    size_t wanted;      /* slots to be mapped; const after init */
    struct slot *slots; /* the records; NULL: not mapped; atomic: stored with release order last */
    uint16_t *number;   /* [slot]: index of its record plus 1; 0: never used; atomic: release */
    uintptr_t start;    /* of the first gap; this and the next are const when slots is set */
    size_t bytes;       /* of a slot */
    size_t gap, count;
    bool refused SA_GUARDED_BY(SA_RANK_GUARDED);     /* the pool cannot be mapped */
    size_t allocated SA_GUARDED_BY(SA_RANK_GUARDED); /* slots not FREE */
    uint16_t used SA_GUARDED_BY(SA_RANK_GUARDED);    /* records in use; atomic: release */
};

SA_STATIC_ASSERT(SA_GUARDED_MAX < UINT16_MAX, "numbers of records fit");

struct sa_guarded_state {
    struct sa_lock lock;
    uint64_t rng; /* atomic */
    struct pool pool[POOLS];
    /* These are for struct sa_guarded_stats. */
    size_t max SA_GUARDED_BY(SA_RANK_GUARDED);
    uint64_t succeeded SA_GUARDED_BY(SA_RANK_GUARDED);
    uint64_t failed SA_GUARDED_BY(SA_RANK_GUARDED);
    uint64_t large; /* atomic, relaxed */
};

extern struct sa_guarded_state sa_guarded SA_HIDDEN;

/* The address of the nearest byte beside a block in use that was written, and what is known of the
 * block; 0: none was. The slot is that of sa_slot_check. */
uintptr_t sa_slot_damage(const struct slot *slot, struct sa_lookup *ret);

/* Reports and aborts if memory beside the block was written. The slot is CHECKED or BUSY, and
 * belongs to the caller. live: the block is in use, and not being freed. */
void sa_slot_check(const struct slot *slot, bool live);

/* Claims a slot that was seen CHECKED, as sa_guarded_claim does. Waits while it is CHECKED. */
bool sa_slot_claim_checked(struct slot *slot);

#endif
