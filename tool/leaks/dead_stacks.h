/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a target's stacks that are not in use: below the stack pointer of each thread, and
 * the stacks of threads that have ended, which libc keeps for others. They are full of pointers
 * that mean nothing any more.
 */
#ifndef SA_TOOL_LEAKS_DEAD_STACKS_H
#define SA_TOOL_LEAKS_DEAD_STACKS_H

#include "tool/leaks/holes.h"
#include "tool/target/target.h"

/* Adds those parts. False: no memory. */
bool sa_stacks_find_dead(struct sa_target *t, const struct sa_threads *threads,
                         struct sa_holes *ret);

#endif
