/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of a block that is guarded, or whose pages are kept inaccessible after it was
 * freed: for the report of its misuse.
 *
 * A history is written by whoever owns the block, with sa_block_history_write, and read at any
 * moment, from signal handlers too, by sa_block_history_read: it holds only if nothing was written
 * meanwhile. What the stacks are is const while a reference to them is held.
 */
#ifndef SA_SAMPLING_STACK_BLOCK_HISTORY_H
#define SA_SAMPLING_STACK_BLOCK_HISTORY_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "sampling/stack/stack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A moment in the life of a block. */
struct sa_event {
    struct sa_stack *stack; /* a reference is held; NULL: it has not happened */
    uint64_t time_ns;
    uint32_t thread; /* the kernel's number */
};

struct sa_block_history {
    uintptr_t start; /* of the block; 0: there is none */
    size_t requested;
    struct sa_event allocated, freed;
};

/* With a version: odd while it is written. Read and written word by word, as that happens at the
 * same time. */
struct sa_block_history_slot {
    uint32_t version; /* atomic */
    union {
        struct sa_block_history history;
        uint64_t words[sizeof(struct sa_block_history) / 8]; /* atomic, relaxed */
    };
};

SA_STATIC_ASSERT(sizeof(struct sa_block_history) % 8 == 0, "it is copied in words");

/* By the owner of the block. */
SA_INLINE void sa_block_history_write(struct sa_block_history_slot *h,
                                      const struct sa_block_history *history)
{
    struct sa_block_history_slot copy = {.history = *history};

    sa_store_relaxed(&h->version, h->version + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (size_t i = 0; i < sizeof(h->words) / sizeof(h->words[0]); i++)
        sa_store_relaxed(&h->words[i], copy.words[i]);
    sa_store_release(&h->version, h->version + 1);
}

/* By anybody. False: there is none, or it changed meanwhile. */
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

/* Gives the references back. */
SA_INLINE void sa_block_history_drop(const struct sa_block_history *h)
{
    if (h->allocated.stack)
        sa_stack_unref(h->allocated.stack);
    if (h->freed.stack)
        sa_stack_unref(h->freed.stack);
}

/* The state that a block was found in. */
enum sa_lookup_state {
    SA_LOOKUP_LIVE,
    SA_LOOKUP_FREED,
    SA_LOOKUP_NOTHING /* guarded memory that no block has had yet */
};

struct sa_lookup {
    enum sa_lookup_state state;
    bool between; /* in a page between guarded slots */
    struct sa_block_history history;
};

#endif
