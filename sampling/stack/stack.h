/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call stacks: capture, and the bounded table that keeps one copy of each.
 *
 * Capture takes no lock, allocates nothing and does not ask the loader; it is correct through code
 * without frame pointers. It may be called with no lock of the allocator held.
 *
 * A stack in the table is counted: whoever keeps a pointer holds a reference. What nobody refers to
 * stays, with its totals, until its memory is needed for another; the table never grows beyond its
 * limit.
 */
#ifndef SA_SAMPLING_STACK_STACK_H
#define SA_SAMPLING_STACK_STACK_H

#include "sampling/estimate/estimate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_STACK_MAX 64 /* frames */

struct sa_stack {
    struct sa_stack *next; /* STACKS: in the bucket */
    uint64_t hash;         /* const */
    uint32_t references;   /* STACKS */
    uint16_t depth;        /* const; 0: the stack of samples whose own could not be kept */
    uint16_t slot;         /* const: where it lies in its block, see stack_table.c */
    struct sa_sums totals; /* SAMPLES: all samples ever taken here, written by who refers to it */
    uintptr_t pc[];        /* const: return addresses, leaf first */
};

struct sa_stack_stats {
    size_t stacks, bytes, limit_bytes; /* bytes: mapped */
    uint64_t dropped;                  /* times that a stack could not be kept */
    uint64_t evicted;                  /* stacks forgotten to make room */
    uint64_t evicted_samples;          /* that had one of these; their blocks had been freed */
};

/*
 * The return addresses of the callers of the frame whose canonical frame address (stack pointer
 * before the call that entered it) is `frame`, leaf first: frames of the allocator itself are left
 * out. How many.
 */
unsigned sa_stack_capture(const void *frame, uintptr_t *pc, unsigned most);

/* While it waits every stack is empty: static programs allocate before their libc has set up the
 * tables of objects, and while it does. Called while there is one thread. */
void sa_stack_capture_wait(bool wait);

/* The table's copy of a stack, with a reference for the caller. Never NULL: if there is no room it
 * is the stack of depth 0. */
struct sa_stack *sa_stack_intern(const uintptr_t *pc, unsigned depth);

/* Of the stack of depth 0, which stays, references are not counted. */
void sa_stack_ref(struct sa_stack *stack);
void sa_stack_unref(struct sa_stack *stack);

/*
 * Calls visit for every stack that has totals, with the table locked (STACKS), and adds up the
 * totals of stacks that were evicted, and of the one of depth 0, which is not visited. The caller
 * holds SAMPLES, as totals are read. Only sa_stack_ref_locked takes a reference from within visit.
 */
void sa_stack_ref_locked(struct sa_stack *stack);
void sa_stack_each(void (*visit)(struct sa_stack *stack, void *arg), void *arg,
                   struct sa_sums *ret_evicted);

void sa_stack_stats(struct sa_stack_stats *ret);

/* At most so many bytes are mapped from now on; what is mapped stays. */
void sa_stack_table_limit(size_t bytes);

/* The stack of samples whose own could not be kept. */
extern struct sa_stack sa_stack_unknown;

#endif
