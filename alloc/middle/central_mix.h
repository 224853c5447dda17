/* SPDX-License-Identifier: Apache-2.0 */
/* When classes take blocks from mixed spans (mixed_spans.h), and which spans become mixed. */
#ifndef SA_MIDDLE_CENTRAL_MIX_H
#define SA_MIDDLE_CENTRAL_MIX_H

#include "alloc/middle/mixed_spans.h"
#include "alloc/os/lock.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/heap_types.h"
#include "alloc/page_heap/account/peak.h"

#include <stdbool.h>
#include <stddef.h>

/* Free bytes of spans in use below which no span becomes mixed. */
#define SA_MIX_MIN_BYTES (4ul << 20)

/* sa_central_mix looks at what classes have when the program has been given more than this. Atomic,
 * relaxed; written there. */
extern int64_t sa_central_mix_look;

/* Whether sa_central_mix may have something to do: the pages in use are more than what the program
 * has been given, by as much; or that has grown since the last look. Most programs get beyond this
 * test only as often as they grow by a part. */
SA_INLINE bool sa_central_mix_may(void)
{
    int64_t used = (int64_t)sa_load_relaxed(&sa_footprint.used[SA_HEAP_ORDINARY]);
    int64_t given = sa_load_relaxed(&sa_in_use.bytes);

    return used - given > (int64_t)SA_MIX_MIN_BYTES ||
           given > sa_load_relaxed(&sa_central_mix_look) || sa_mixed_use == SA_MIXED_ALWAYS;
}

/*
 * Takes up to n objects of a class, whose spans have none left, from mixed spans. They are written
 * before `end`. Makes mixed spans while that saves much memory. Returns how many; 0: the class
 * takes a new span. The caller holds no lock below CENTRAL. most_align: as for sa_mixed_take.
 */
size_t sa_central_mix(unsigned cls, void **end, size_t n, size_t most_align)
    SA_EXCLUDES(SA_RANK_CENTRAL);

/* Gives a block, which the caller owns, back to its mixed span, where that is to be done at once
 * (mixed_returns.h). False: it is short, its span is not mixed, or another thread has the lock. */
bool sa_central_mix_return(unsigned cls, void *block) SA_EXCLUDES(SA_RANK_MIXED);

/* Bytes that came from mixed spans since sa_central_mix_shake_is_due was last true. Atomic,
 * relaxed. */
extern size_t sa_central_mix_unshaken;

/* Whether so much came from mixed spans that the transfer caches should pass on idle objects. */
bool sa_central_mix_shake_is_due(void);

/* How often that was so, since the CPU caches were emptied for the same reason. Atomic, relaxed. */
extern size_t sa_central_mix_shakes;

/* Whether so much came from mixed spans that the CPU caches, which may hold `bytes`, should be
 * emptied. */
bool sa_central_mix_drain_is_due(size_t bytes);

#endif
