/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clearing long blocks: every second time in parts, from the last to the first. Always in one
 * order, a block that is longer than a cache would push each of its lines out just before the
 * line's turn; so, what was cleared last is cleared first. It pays for the first-level cache from
 * its size to ten times that, and for the second-level one likewise: less than half of the time at
 * 64 KiB, a quarter less at 128 KiB, 2 % at 1 MiB, a tenth at 2 to 8 MiB (doc/perf.md). The parts
 * are shorter than a first-level cache, as each is cleared forwards and would push out the end of
 * itself otherwise. A program that has gone through the block in between leaves its end in the
 * cache: then the turn from the end is quicker, and the other as slow as ever.
 *
 * What falls without it: the table of doc/perf.md, "calloc". It is of a loop that clears the same
 * block over and over; no program is known.
 *
 * Shared words: for each block, by its address, which way it was cleared last; some share one, so
 * that now and then a block is cleared the same way twice. One for all would go from CPU to CPU
 * each time, which takes as long as clearing 8 KiB.
 */
#include "alloc/base/atomic.h"
#include "alloc/base/clear.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PART (16ul << 10) /* the first one of a block may be up to twice as long */
#define MOST (8ul << 20)

#define TURNS_SHIFT 10

static uint8_t turns[1 << TURNS_SHIFT]; /* atomic, relaxed */

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
    SA_OPAQUE(p); /* or clang makes one memset of those of all parts */
    memset(p, 0, bytes);
}

void sa_clear_long(void *p, size_t bytes)
{
    if (bytes <= MOST)
        sa_clear_in_turns(p, bytes, clear_part);
    else
        memset(p, 0, bytes);
}
