/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures call stacks, and keeps one copy of each in a bounded table.
 *
 * Capture takes no lock, allocates nothing and does not call the loader. It works through code
 * without frame pointers, and in signal handlers. The caller holds no lock of the allocator.
 *
 * A stack in the table has a reference count. Every kept pointer to a stack holds a reference. A
 * stack without references stays, with its totals, until its memory is needed for another stack.
 * The table never maps more bytes than its limit.
 */
#ifndef SA_SAMPLING_STACK_STACK_H
#define SA_SAMPLING_STACK_STACK_H

#include "sampling/estimate/estimate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_STACK_MAX 64 /* frames */

/* A stack of the table. "const": written once, under STACKS, before the first reference exists. */
struct sa_stack {
    struct sa_stack *next; /* in its bucket; under STACKS */
    uint64_t hash;         /* of pc[]; under STACKS: changes with pc[] */
    uint32_t references;   /* under STACKS */
    uint16_t depth;        /* frames, up to SA_STACK_MAX; 0: the unknown stack; const */
    uint16_t slot;         /* index in its block (stack_table.c); const */
    struct sa_sums totals; /* of all samples ever taken here; under SAMPLES, with a reference */
    /* Return addresses, leaf first. Atomic, relaxed: const, but that addresses in an object that is
     * unloaded become places in it (unloaded.h), once. */
    uintptr_t pc[];
};

struct sa_stack_stats {
    size_t stacks;            /* in the table now */
    size_t bytes;             /* mapped for the table now */
    size_t limit_bytes;       /* the most that it may map */
    uint64_t dropped;         /* times that a stack had no room, since the start */
    uint64_t evicted;         /* stacks removed to make room, since the start */
    uint64_t evicted_samples; /* samples of these stacks; their blocks had been freed */
};

/*
 * Stores the return addresses of a call stack in pc[0 .. most - 1], leaf first, and returns their
 * number. It is 0 if nothing is known. The stack begins at the caller of the frame whose canonical
 * frame address (the stack pointer before the call that entered it) is `frame`. Frames of the
 * allocator itself are thus left out. Any thread and signal handler, without a lock.
 */
unsigned sa_stack_capture(const void *frame, uintptr_t *pc, unsigned max);

/* The same for the stack that called the allocator: its frame is sa_thread.caller. */
unsigned sa_stack_capture_caller(uintptr_t *pc, unsigned max);

/*
 * Turns capture off (true) or on (false). While it is off, every captured stack is empty. A static
 * program allocates before and while its libc sets up the tables of loaded objects. The caller is
 * the only thread.
 */
void sa_stack_capture_wait(bool wait);

/* Returns the table's copy of a stack, with a reference that the caller gives back with
 * sa_stack_unref. Never NULL: without room the result is sa_stack_unknown. Takes STACKS. */
struct sa_stack *sa_stack_intern(const uintptr_t *pc, unsigned depth);

/* Adds and gives back a reference. The caller of sa_stack_ref holds a reference already. References
 * to sa_stack_unknown are not counted. Takes STACKS. */
void sa_stack_ref(struct sa_stack *stack);
void sa_stack_unref(struct sa_stack *stack);

/*
 * Calls visit for every stack of the table with totals, under STACKS. Then stores the sum of the
 * totals of evicted stacks and of sa_stack_unknown in *ret_evicted; sa_stack_unknown is not
 * visited. Requires SAMPLES, because totals are read. visit may call sa_stack_ref_locked, and no
 * other function of this header.
 */
void sa_stack_each(void (*visit)(struct sa_stack *stack, void *arg), void *arg,
                   struct sa_sums *ret_evicted);

/* Adds a reference from visit, which holds STACKS. The stack needs no reference before. */
void sa_stack_ref_locked(struct sa_stack *stack);

/* Tells the table that an object was unloaded: return addresses that follow a byte of [start, end)
 * become places in it (unloaded.h). base: what its offsets count from. Takes STACKS. */
void sa_stack_unload(uintptr_t start, uintptr_t end, uintptr_t base, const char *name);

/* Stores the current counts. Takes STACKS. */
void sa_stack_stats(struct sa_stack_stats *ret);

/* Sets the most bytes that the table may map. Memory beyond it that is mapped already stays. Takes
 * STACKS. */
void sa_stack_table_limit(size_t bytes);

/* Maps the table and the memory for the first stacks, and touches both. */
void sa_stack_table_prepare(void);

/* Checks every bucket, slot and ring of the table, and ends the program if an invariant of
 * stack_table.c does not hold. Maintenance calls it in debug builds. Takes STACKS. */
void sa_stack_table_validate(void);

/* The unknown stack: that of samples whose own stack had no room. Its depth is 0. It is in no
 * bucket and is never evicted. */
extern struct sa_stack sa_stack_unknown;

#endif
