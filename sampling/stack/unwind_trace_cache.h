/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unwind trace cache of the fast unwinder. A trace is the rules of one whole stack, in order. A
 * walk that begins with the same call follows the trace instead of looking up each rule. A loop
 * that allocates has the same stack again and again.
 *
 * A trace is only a guess of the rules to come. Each step has the code address that its rule is
 * for. A walk takes the rule only if that is the address at which it has arrived. It goes on
 * without the trace from the first step that differs. The rule of an address does not change while
 * its object is loaded. Before the first step in an object that may be unloaded stands a step with
 * the identity of the object, and the walk checks that the object is still there. The object then
 * stays loaded, because its frames are on the stack. The result of a walk is thus the same with and
 * without a trace.
 *
 * Threads and signal handlers share the traces, without a lock. Each trace has a sequence lock: no
 * walk begins to follow a trace while it is written, and a walk starts again if the trace it
 * followed was written meanwhile (is_whole). Until then rules may be torn. The bounds that the
 * unwinder checks make torn rules harmless.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_TRACE_CACHE_H
#define SA_SAMPLING_STACK_UNWIND_TRACE_CACHE_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/rng.h"
#include "sampling/stack/unwind_cfi.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_TRACE_CACHE_STEPS 48 /* the longest trace, in steps */
#define SA_TRACE_CACHE_BITS  4  /* 16 traces. They are given out in order, so few share a page */

/* A trace is written again after this many walks in a row have left it. Stacks that do not come
 * again thus cost few writes. */
#define SA_TRACE_CACHE_PATIENCE 4

struct sa_trace_cache_step {
    uintptr_t pc;  /* as in struct cursor of unwind_fast.c; atomic, relaxed */
    uint64_t rule; /* rule for leaving the frame at pc, or an object; atomic, relaxed */
};

/* A bit of a rule: the rule is plain (sa_trace_cache_is_plain). The walk then checks only that the
 * frame ends below the top of the stack. */
#define SA_TRACE_CACHE_PLAIN (1 << 8)

/* A step with this in place of a rule says that pc is in the object with the identity. The lowest
 * three bits of the identity are lost. */
#define SA_TRACE_CACHE_OBJECT(identity) ((identity) | SA_RULE_KIND)

/* A trace. */
struct sa_trace {
    uint32_t sequence; /* atomic: odd during a write; grows by 2 with each */
    uint32_t count;    /* steps; atomic, relaxed */
    uint32_t left; /* walks in a row that left the trace; atomic, relaxed, updates may be lost */
    struct sa_trace_cache_step step[SA_TRACE_CACHE_STEPS];
} __attribute__((aligned(SA_CACHELINE)));

/* The steps of a walk that may become a trace. Belongs to the walk. */
struct sa_trace_recorded {
    uint32_t count;
    bool going; /* false: a step cannot be in a trace, or the trace is full; none is added */
    bool exact; /* the address of the first step is where the walk began, not a return address */
    struct sa_trace_cache_step step[SA_TRACE_CACHE_STEPS];
};

extern struct sa_trace sa_trace_caches[1 << SA_TRACE_CACHE_BITS] SA_HIDDEN;

/* Hash of the beginning of a walk → index of the trace plus 1; 0: no trace yet. Atomic, relaxed. */
extern uint8_t sa_trace_cache_numbers[1 << SA_TRACE_CACHE_BITS] SA_HIDDEN;

/* Gives an element of sa_trace_cache_numbers a trace, and returns it. */
struct sa_trace *sa_trace_cache_first_of(uint8_t *number);

/* Returns the trace for walks that begin with this call at this stack address. Others may share
 * it. */
SA_INLINE struct sa_trace *sa_trace_cache_of(uintptr_t return_address, uintptr_t frame)
{
    uint8_t *number = &sa_trace_cache_numbers[(return_address ^ frame << 32) * SA_RNG_STEP >>
                                              (64 - SA_TRACE_CACHE_BITS)];
    unsigned n = sa_load_relaxed(number);

    return SA_LIKELY(n) ? &sa_trace_caches[n - 1] : sa_trace_cache_first_of(number);
}

/* Begins to follow a trace. False: it is being written, or is to be written again. Stores the
 * sequence for sa_trace_cache_is_whole. */
SA_INLINE bool sa_trace_cache_begin(const struct sa_trace *trace, uint32_t *ret_sequence)
{
    *ret_sequence = sa_load_acquire(&trace->sequence);
    return *ret_sequence % 2 == 0 && sa_load_relaxed(&trace->left) < SA_TRACE_CACHE_PATIENCE;
}

/* Returns whether no write came between sa_trace_cache_begin and this call. */
SA_INLINE bool sa_trace_cache_is_whole(const struct sa_trace *trace, uint32_t sequence)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return sa_load_relaxed(&trace->sequence) == sequence;
}

/* Counts a walk that followed the trace to its end, or one that left it before. */
SA_INLINE void sa_trace_cache_end(struct sa_trace *trace, bool followed)
{
    uint32_t left = sa_load_relaxed(&trace->left);

    if (!followed)
        sa_store_relaxed(&trace->left, left + 1);
    else if (left)
        sa_store_relaxed(&trace->left, 0);
}

/* Adds a step, as long as there is room. */
SA_INLINE void sa_trace_cache_add(struct sa_trace_recorded *recorded, uintptr_t pc, uint64_t rule)
{
    recorded->going = recorded->going && recorded->count < SA_TRACE_CACHE_STEPS;
    if (recorded->going)
        recorded->step[recorded->count++] = (struct sa_trace_cache_step){pc, rule};
}

/* Returns whether a rule is plain: from an aligned stack pointer, all that it reads lies between
 * the stack pointer and the caller's frame, and is aligned. */
bool sa_trace_cache_is_plain(uint64_t rule);

/* Writes the trace. Does nothing if another thread, or interrupted code, is writing it. */
void sa_trace_cache_set(struct sa_trace *trace, const struct sa_trace_recorded *recorded);

#endif
