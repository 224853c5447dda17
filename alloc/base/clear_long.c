/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clearing long blocks: every second time in parts, from the last to the first. Always in one order, a block that is longer than a
 * cache would push each of its lines out just before the line's turn; so, what was cleared last is cleared first. It pays for the
 * first-level cache from its size to ten times that, and for the second-level one likewise: less than half of the time at 64 KiB, a
 * quarter less at 128 KiB, 2 % at 1 MiB, a tenth at 2 to 8 MiB (doc/perf.md). The parts are shorter than a first-level cache, as
 * each is cleared forwards and would push out the end of itself otherwise. A program that has gone through the block in between
 * leaves its end in the cache, and loses in one turn what it gains in the other.
 *
 * The shared word is the count of turns, which may lose some; of threads that clear in step, each may always go the same way.
 */
#include "alloc/base/atomic.h"
#include "alloc/base/clear.h"

#include <stdint.h>
#include <string.h>

#define PART (16ul << 10) /* the first one of a block may be up to twice as long */
#define MOST (8ul << 20)

static uint32_t turns; /* atomic, relaxed */

void sa_clear_in_turns(void *p, size_t bytes, sa_clear_part *clear)
{
    uint32_t turn = sa_load_relaxed(&turns);
    size_t left = bytes;

    sa_store_relaxed(&turns, turn + 1);
    for (; turn % 2 && left >= 2 * PART; left -= PART)
        clear((char *)p + left - PART, PART);
    clear(p, left);
}

static void clear_part(void *p, size_t bytes)
{
    memset(p, 0, bytes);
}

void sa_clear_long(void *p, size_t bytes)
{
    if (bytes <= MOST)
        sa_clear_in_turns(p, bytes, clear_part);
    else
        memset(p, 0, bytes);
}
