/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that a program can move, so that sparse spans become empty: caches, column stores,
 * language runtimes. No shared words. Only objects of size classes move. Large blocks do not share
 * their pages, and sampled, guarded and hardened blocks are what reports know.
 */
#ifndef SA_FRONT_DEFRAGMENT_H
#define SA_FRONT_DEFRAGMENT_H

#include <stdbool.h>

/* Returns whether moving a block would help to free its span: central_move.h. A hint. False for any
 * pointer that is not the start of a block. It may be true for a freed block. */
bool sa_front_worth_moving(const void *p);

/* Moves a block to a fuller span, and frees the old one. Returns the new block; NULL: there is no
 * better place, and nothing has changed. Ends the program if p is no block. */
void *sa_front_move(void *p);

#endif
