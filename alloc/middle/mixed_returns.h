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
 * freed a block takes it again. What tells the two apart is that mixed spans grow. So a number of
 * bytes may go back for each byte that mixed spans grow beyond the most that they ever had: caches
 * that are emptied, and batches that come and go, are no growth. And a few may from time to time:
 * few enough that no program notices, for those that change their sizes for months.
 */
#ifndef SA_MIDDLE_MIXED_RETURNS_H
#define SA_MIDDLE_MIXED_RETURNS_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether they do. Atomic, relaxed; written under MIXED. */
extern bool sa_mixed_returns;

/* A span has become mixed, or a part of one that was. */
void sa_mixed_returns_grown(void) SA_REQUIRES(SA_RANK_MIXED);

/* A block has gone back for this reason. */
void sa_mixed_returns_count(size_t bytes) SA_REQUIRES(SA_RANK_MIXED);

/* One could not, because another thread had the lock. */
void sa_mixed_returns_refused(void);

/* Called by maintenance, where there are mixed spans. Ends it if no class has taken blocks from
 * mixed spans for SA_LEAN_NS. now: the coarse clock. */
void sa_mixed_returns_tick(uint64_t now) SA_EXCLUDES(SA_RANK_MIXED);

#endif
