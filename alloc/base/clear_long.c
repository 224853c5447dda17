/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clears long blocks in alternating directions: every second call clears in parts, from the last
 * part to the first. Calls in one direction are slow for a block that is longer than a cache: each
 * line is evicted just before it is needed. With two directions, the lines that were cleared last
 * are cleared first.
 *
 * The gain at the first-level cache extends to 10 times its size: less than half of the time at 64
 * KiB, 25 % less at 128 KiB, 2 % less at 1 MiB. At the second-level cache the gain is 10 %, at 2 to
 * 8 MiB (doc/perf_findings.md). These figures are of a loop that clears the same block again and
 * again; no program is known to gain as much.
 *
 * Each part is cleared forwards, so a part is shorter than a first-level cache: a longer part would
 * evict its own end. A program that reads through the block between two calls leaves the end of the
 * block in the cache. The backward direction then is faster, and the forward direction is as slow
 * as before.
 *
 * Shared words: turns[], the direction of the last call, by the hash of the block's address. No
 * lock: a lost update costs one call in the slower direction, and so do two blocks that share a
 * word. A single word for all blocks would bounce between CPUs, which takes as long as clearing 8
 * KiB.
 */
#include "alloc/base/atomic.h"
#include "alloc/base/clear.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PART (16ul << 10) /* bytes; the first part of a block is up to twice as long */
/* Longer blocks exceed every cache that gains: memset clears them. */
#define MOST (8ul << 20)

#define TURNS_SHIFT 10

/* 0: the next call clears forwards; atomic, relaxed, written by the thread that clears */
static uint8_t turns[1 << TURNS_SHIFT];

/* The direction word of a block. */
static uint8_t *turn_of(const void *p)
{
    return &turns[((uintptr_t)p >> 12) * 0x9e3779b97f4a7c15u >> (64 - TURNS_SHIFT)];
}

void sa_clear_in_turns(void *p, size_t bytes, sa_clear_part *clear)
{
    uint8_t *turn = turn_of(p);
    bool backward = sa_load_relaxed(turn);
    size_t left = bytes;

    sa_store_relaxed(turn, !backward);
    for (; backward && left >= 2 * PART; left -= PART)
        clear((char *)p + left - PART, PART);
    clear(p, left);
}

static void clear_part(void *p, size_t bytes)
{
    SA_OPAQUE(p); /* keeps clang from joining the parts into one memset */
    memset(p, 0, bytes);
}

void sa_clear_long(void *p, size_t bytes)
{
    if (bytes <= MOST)
        sa_clear_in_turns(p, bytes, clear_part);
    else
        memset(p, 0, bytes);
}
