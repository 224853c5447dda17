/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program can reach by itself: its registers, its stacks as far as they are in use, and all
 * memory that it can write to (static and thread-local data, mappings of its own). The heap and the
 * records of the library are no part of that: they have pointers to each block, lost or not.
 */
#ifndef SA_TOOL_LEAKS_ROOTS_H
#define SA_TOOL_LEAKS_ROOTS_H

#include "tool/leaks/mark.h"

/* Marks all that a program can reach. */
bool sa_roots_mark(struct sa_mark *m, const struct sa_table *table,
                   const struct sa_threads *threads, struct sa_error *e);

#endif
