/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of guarded blocks, for guarded.c and guarded_inspect.c only. */
#ifndef SA_SAMPLING_GUARD_GUARDED_SLOTS_H
#define SA_SAMPLING_GUARD_GUARDED_SLOTS_H

#include "alloc/os/lock.h"
#include "sampling/guard/guarded.h"

/* For blocks of up to a page, of any class, and of no bytes. */
enum { POOL_PAGE, POOL_LARGE, POOL_ZERO, POOLS };

/* CHECKED: live, and looked at by sa_guarded_inspect. LOST: freed meanwhile, by a signal handler;
 * never used again. */
enum state { STATE_FREE, STATE_BUSY, STATE_LIVE, STATE_CHECKED, STATE_LOST };

/* A slot that has been used. */
struct slot {
    struct sa_span span; /* first: a span is turned into its slot */
    struct sa_block_history_slot history;
    uint8_t state; /* GUARDED; atomic */
    uint8_t cls;
    uint8_t pool; /* which; const once it is used */
    void *object; /* atomic, relaxed: see sa_guarded_set_object */
};

/*
 * Slots of one length, each between two gaps that are never accessible. The records of those that
 * are used first lie together, wherever the slots are: a program that has used few touches a page
 * of them.
 */
struct pool {
    size_t wanted;      /* slots; const after init */
    struct slot *slots; /* atomic: release when the pool is ready */
    uint16_t *number;   /* of each slot's record, plus 1; 0: it was never used; atomic: release */
    uintptr_t start;    /* of the first gap; this and the next are const when slots is set */
    size_t bytes;       /* of a slot */
    size_t gap, count;
    bool refused;     /* GUARDED: there is no place for it */
    size_t allocated; /* GUARDED */
    uint16_t used;    /* GUARDED: records; atomic: release */
};

SA_STATIC_ASSERT(SA_GUARDED_MAX < UINT16_MAX, "numbers of records fit");

struct sa_guarded_state {
    struct sa_lock lock;
    uint64_t rng; /* atomic */
    struct pool pool[POOLS];
    size_t most;        /* GUARDED */
    uint64_t succeeded; /* GUARDED */
    uint64_t failed;    /* GUARDED */
    uint64_t large;     /* atomic, relaxed */
};

extern struct sa_guarded_state sa_guarded SA_HIDDEN;

/* Ends the program if memory beside the block was written. The slot is CHECKED or BUSY, and the
 * caller's. */
void sa_slot_check(const struct slot *slot, bool live);

/* Claims a slot that is CHECKED, as sa_guarded_claim does. */
bool sa_slot_claim_checked(struct slot *slot);

#endif
