/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The history of a block, for the report of its misuse: who allocated and freed it, and when.
 * Guarded samples and freed blocks in the sample quarantine have one.
 *
 * The owner of the block writes the history with sa_block_history_write. Any thread and signal
 * handler may read it at any moment with sa_block_history_read, which fails if a write came
 * between (a sequence lock). The stacks do not change while the history holds references to them.
 */
#ifndef SA_SAMPLING_STACK_BLOCK_HISTORY_H
#define SA_SAMPLING_STACK_BLOCK_HISTORY_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The allocation or the free of a block. */
struct sa_event {
    struct sa_stack *stack; /* with a reference; NULL: the event has not happened */
    uint64_t time_ns;       /* on the clock of alloc/os/clock.h */
    uint32_t thread;        /* the kernel's number of the thread */
};

struct sa_block_history {
    uintptr_t start;  /* address of the block; 0: no block */
    size_t requested; /* bytes */
    struct sa_event allocated, freed;
};

/* A history and its sequence lock. Words are read and written at the same time, so all are relaxed
 * atomics. */
struct sa_block_history_slot {
    uint32_t version; /* atomic: odd during a write; grows by 2 with each. By the block's owner */
    union {
        struct sa_block_history history;
        uint64_t words[sizeof(struct sa_block_history) / 8]; /* atomic, relaxed */
    };
};

SA_STATIC_ASSERT(sizeof(struct sa_block_history) % 8 == 0, "it is copied in words");

/* Writes the history. Only the owner of the block calls this, one thread at a time. The references
 * of the new history pass to the slot. The caller gives back those of the old one. */
SA_INLINE void sa_block_history_write(struct sa_block_history_slot *h,
                                      const struct sa_block_history *history)
{
    struct sa_block_history_slot copy = {.history = *history};

    SA_DCHECK(!(h->version & 1));
    sa_store_relaxed(&h->version, h->version + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t i = 0; i < sizeof(h->words) / sizeof(h->words[0]); i++)
        sa_store_relaxed(&h->words[i], copy.words[i]);
    sa_store_release(&h->version, h->version + 1);
}

/* Copies the history to *ret, from any thread or signal handler. False: the slot has no block, or a
 * write came between. *ret then has no meaning. The copy holds no references. */
SA_INLINE bool sa_block_history_read(const struct sa_block_history_slot *h,
                                     struct sa_block_history *ret)
{
    uint32_t version = sa_load_acquire(&h->version);
    struct sa_block_history_slot copy;

    for (size_t i = 0; i < sizeof(h->words) / sizeof(h->words[0]); i++)
        copy.words[i] = sa_load_relaxed(&h->words[i]);
    *ret = copy.history;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !(version & 1) && sa_load_relaxed(&h->version) == version && ret->start;
}

/* Gives back the references to both stacks. Takes STACKS. */
SA_INLINE void sa_block_history_drop(const struct sa_block_history *h)
{
    if (h->allocated.stack)
        sa_stack_unref(h->allocated.stack);
    if (h->freed.stack)
        sa_stack_unref(h->freed.stack);
}

/* What a pointer lookup found at an address. */
enum sa_lookup_state {
    SA_LOOKUP_LIVE,
    SA_LOOKUP_FREED,
    SA_LOOKUP_NOTHING /* guarded memory that has had no block yet */
};

/* The lookup result. The history holds no references. */
struct sa_lookup {
    enum sa_lookup_state state;
    bool between; /* the address is in a page between guarded slots */
    struct sa_block_history history;
};

#endif
