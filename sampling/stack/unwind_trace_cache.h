/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths: what was looked up during a walk of the stack, in order, so that the next walk that takes
 * the same way need not look it up again. A loop that allocates has the same stack again and again.
 *
 * A path is nothing but a guess of the rules to come. Each step has the address that it is for; a
 * walk takes the rule only if that is the address at which it has arrived, with the stack pointer
 * and rbp that it has, and goes on by itself from the first one that differs. The rule of an
 * address is always the same as long as the object there is: before the first step in an object
 * that may be unloaded stands one that says which it was, for the walk to see whether it still is;
 * it then stays there while its frames are on the stack. So a walk ends up with the same stack,
 * whatever the path says.
 *
 * Paths are shared by threads and signal handlers, without a lock: one that is being written is not
 * read, and one that was written while it was being followed was followed for nothing (is_whole).
 * Until this is known rules may be torn, which the walker's own bounds make harmless.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_TRACE_CACHE_H
#define SA_SAMPLING_STACK_UNWIND_TRACE_CACHE_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/rng.h"
#include "sampling/stack/unwind_cfi.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_TRACE_CACHE_STEPS 48
#define SA_TRACE_CACHE_BITS  4 /* paths kept; those that were used first share pages */

/* A path is written after so many walks one after the other that left it: stacks that do not come
 * again cost little. */
#define SA_TRACE_CACHE_PATIENCE 4

struct sa_trace_cache_step {
    uintptr_t pc; /* as the walk has it; atomic, relaxed, as the others */
    uint64_t rule;
};

/* In a rule: that it is plain (below), so that but for the end of the stack nothing has to be
 * looked at. */
#define SA_TRACE_CACHE_PLAIN (1 << 8)

/* Instead of a rule: the address is in an object of this identity, but for the lowest bits. */
#define SA_TRACE_CACHE_OBJECT(identity) ((identity) | SA_RULE_KIND)

struct sa_path {
    uint32_t sequence; /* atomic: odd while the steps are being written */
    uint32_t count;    /* of steps; atomic, relaxed */
    uint32_t left;     /* walks in a row that left it; atomic, relaxed, and updates may be lost */
    struct sa_trace_cache_step step[SA_TRACE_CACHE_STEPS];
} __attribute__((aligned(SA_CACHELINE)));

/* What a walk that is to become a path has met. */
struct sa_trace_cache_made {
    uint32_t count;
    bool going; /* not yet at a step that cannot be part of one */
    struct sa_trace_cache_step step[SA_TRACE_CACHE_STEPS];
};

extern struct sa_path sa_trace_caches[1 << SA_TRACE_CACHE_BITS] SA_HIDDEN;

/* By where walks begin: the number of the path plus 1, or 0: it has none yet. Atomic, relaxed. */
extern uint8_t sa_trace_cache_numbers[1 << SA_TRACE_CACHE_BITS] SA_HIDDEN;

/* Gives it one. */
struct sa_path *sa_trace_cache_first_of(uint8_t *number);

/* For walks that begin with the same call, at the same depth, or not far from it. */
SA_INLINE struct sa_path *sa_trace_cache_of(uintptr_t return_address, uintptr_t frame)
{
    uint8_t *number = &sa_trace_cache_numbers[(return_address ^ frame << 32) * SA_RNG_STEP >>
                                              (64 - SA_TRACE_CACHE_BITS)];
    unsigned n = sa_load_relaxed(number);

    return SA_LIKELY(n) ? &sa_trace_caches[n - 1] : sa_trace_cache_first_of(number);
}

/* False: nobody can follow it now. */
SA_INLINE bool sa_trace_cache_begin(const struct sa_path *path, uint32_t *ret_sequence)
{
    *ret_sequence = sa_load_acquire(&path->sequence);
    return *ret_sequence % 2 == 0 && sa_load_relaxed(&path->left) < SA_TRACE_CACHE_PATIENCE;
}

/* Whether what was read since sa_trace_cache_begin belongs together. */
SA_INLINE bool sa_trace_cache_is_whole(const struct sa_path *path, uint32_t sequence)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return sa_load_relaxed(&path->sequence) == sequence;
}

/* The walk followed it to its end, or left it before. */
SA_INLINE void sa_trace_cache_end(struct sa_path *path, bool followed)
{
    uint32_t left = sa_load_relaxed(&path->left);

    if (!followed)
        sa_store_relaxed(&path->left, left + 1);
    else if (left)
        sa_store_relaxed(&path->left, 0);
}

SA_INLINE void sa_trace_cache_add(struct sa_trace_cache_made *made, uintptr_t pc, uint64_t rule)
{
    made->going = made->going && made->count < SA_TRACE_CACHE_STEPS;
    if (made->going)
        made->step[made->count++] = (struct sa_trace_cache_step){pc, rule};
}

/* Whether a rule, followed from an aligned stack pointer, leads to a frame above it with all that
 * it reads inside. */
bool sa_trace_cache_is_plain(uint64_t rule);

/* Unless somebody else is writing it. */
void sa_trace_cache_set(struct sa_path *path, const struct sa_trace_cache_made *made);

#endif
