/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When freed blocks go back to mixed spans at once, rather than to caches.
 *
 * A freed block of a mixed span is best a part of a longer run. A cache would hand it out again at
 * its old place, between blocks that are about to be freed, and so on: free runs stay short. While
 * a program changes the sizes that it uses, blocks of more than SA_SMALL_MAX bytes therefore go
 * back at once. Shorter ones make little difference (doc/mixed_spans.md), and are most of the
 * blocks.
 *
 * A program whose sizes stay the same would pay for each block and gain nothing: the class that
 * freed a block takes it again. What tells the two apart is that the blocks on mixed spans become
 * more. Each rise by 1/16 of what the program has in use, above the lowest point since the rise
 * before, lets a number of bytes go back.
 */
#ifndef SA_MIDDLE_MIXED_RETURNS_H
#define SA_MIDDLE_MIXED_RETURNS_H

#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether they do. Atomic, relaxed; written under MIXED. */
extern bool sa_mixed_returns;

/* Blocks on mixed spans, in use or in caches, have become more, or fewer: `used` bytes now. */
void sa_mixed_returns_rise(size_t used) SA_REQUIRES(SA_RANK_MIXED);
void sa_mixed_returns_fall(size_t used) SA_REQUIRES(SA_RANK_MIXED);

/* A block has gone back for this reason. */
void sa_mixed_returns_count(size_t bytes) SA_REQUIRES(SA_RANK_MIXED);

/* Ends it. */
void sa_mixed_returns_end(void) SA_REQUIRES(SA_RANK_MIXED);

#endif
