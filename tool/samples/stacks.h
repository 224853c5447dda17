/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call stacks of a target. Each becomes a stack of this command's own table
 * (sampling/stack/stack.h), by its frames, so that the writers of profiles can work with it. A
 * stack is one of the target's table if its hash is that of its frames: one that is being replaced
 * is recognised by that.
 */
#ifndef SA_TOOL_SAMPLES_STACKS_H
#define SA_TOOL_SAMPLES_STACKS_H

#include "sampling/stack/stack.h"
#include "sampling/stack/unloaded.h"
#include "tool/layout/table.h"

struct sa_stacks {
    struct sa_target *target;
    struct sa_plan stack, sums;
    uint32_t totals, pc; /* offsets in a stack */
    uint64_t unknown;    /* address of the stack of those whose own could not be kept */
    struct sa_stacks_entry {
        uint64_t address;
        struct sa_stack *own;
        bool followed;
    } * entries; /* open addressing, at most half full */
    size_t count, cap;
    struct sa_unloaded unloaded; /* names of objects that the target has unloaded */
};

bool sa_stacks_open(struct sa_stacks *s, struct sa_target *t, const struct sa_table *table,
                    struct sa_error *e);
void sa_stacks_close(struct sa_stacks *s);

/* The stack at an address; NULL: there is none, or it is not whole. */
struct sa_stack *sa_stacks_get(struct sa_stacks *s, uint64_t address);

/* What was ever allocated at each stack: totals of the stack and the next one in its bucket. */
struct sa_stacks_link {
    struct sa_stack *own;
    struct sa_sums totals;
    uint64_t next;
    bool again; /* it was followed before */
};

bool sa_stacks_follow(struct sa_stacks *s, uint64_t address, struct sa_stacks_link *ret);

/* Sums at an address. False: they cannot be read, or are none. */
bool sa_stacks_sums(struct sa_stacks *s, uint64_t address, struct sa_sums *ret);

#endif
