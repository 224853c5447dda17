/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment at which most memory was used: realized fragmentation compares what was used then with
 * what the program had in use, as the sampler estimates it.
 *
 * Memory only becomes more when pages are handed out, so each page heap calls sa_peak_note there,
 * with its lock held. What was used is the footprint (footprint.h). The two figures of the peak are
 * kept in one word, so that they are of the same moment without a lock of their own: pages of
 * SA_PAGE_BYTES, 32 bits each.
 *
 * Beside it, the moment of the peak profile: the program had most in use, counted and not
 * estimated. In use are large blocks and the objects that the middle layer has given out, each by
 * what it occupies, less those in the caches of CPUs. The former is counted as it changes. The
 * latter are only counted where the former is above the high-water mark so far, which it has to be
 * for the mark to rise, and one of two things has happened since the last count:
 *
 * - 1/SA_IN_USE_PART of the mark was given out, whatever came back. This finds the peaks of a heap
 *   that has been as large before.
 * - As much more is given out than at any count before. This finds each peak of a heap that grows,
 *   and happens at most SA_IN_USE_PART times until the heap is e times as large.
 *
 * So the mark is that much too low at most. With many caches both have to be more (SA_IN_USE_MIN,
 * SA_IN_USE_GROWN), as the time of a count is proportional to their number. Nothing in this depends
 * on what is sampled: of a sampled block its class's size counts, whether a proxy is held for it or
 * not, and what is kept after a free does not.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_PEAK_H
#define SA_PAGE_HEAP_ACCOUNT_PEAK_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/single_threaded.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_peak {
    uint64_t estimate_bytes; /* atomic, relaxed: in use by the program; written by the sampler */
    uint64_t at_peak;        /* atomic: used pages << 32 | estimate in pages */
};

#define SA_IN_USE_PART  256
#define SA_IN_USE_MIN   65536 /* bytes for each cache that is counted, where the mark is low */
#define SA_IN_USE_GROWN 8     /* of a heap that grows: for each so many caches */

struct sa_in_use {
    int64_t bytes; /* atomic, relaxed: given out, cached or not */
    int64_t given; /* the same: ever; an update may be lost */
    int64_t most;  /* the same: high-water mark of what is in use */
    int64_t next;  /* `given` at which it is time to count caches again */
    int64_t high;  /* `bytes` at which it is, too */
} __attribute__((aligned(SA_CACHELINE)));

extern struct sa_peak sa_peak;
extern struct sa_in_use sa_in_use;

/* So many bytes more, or less (as a negative number), are given out. */
SA_INLINE void sa_in_use_add(int64_t bytes)
{
    sa_count_shared((uint64_t *)&sa_in_use.bytes, (uint64_t)bytes);
    if (bytes > 0)
        sa_count_add(&sa_in_use.given, bytes);
}

/* Whether the program may have more in use than ever before, and it is time to find out. */
SA_INLINE bool sa_in_use_may_be_most(void)
{
    int64_t bytes = sa_load_relaxed(&sa_in_use.bytes);

    return bytes > sa_load_relaxed(&sa_in_use.most) &&
           (sa_load_relaxed(&sa_in_use.given) >= sa_load_relaxed(&sa_in_use.next) ||
            bytes >= sa_load_relaxed(&sa_in_use.high));
}

/*
 * So many bytes are in use; so many caches were counted to find that out. If it is the most so far,
 * the call that this thread is in is marked: a block that it samples was in use then.
 */
void sa_in_use_note(int64_t bytes, int caches);

/* Sampling has been turned on: what was most before is not of interest. */
void sa_in_use_restart(void);

/* A heap has handed out pages: used_bytes of it hold memory now, more_bytes are the program's that
 * no sample can tell of so far. */
void sa_peak_note(unsigned heap, size_t used_bytes, size_t more_bytes);

struct sa_peak_stats {
    size_t used_bytes;     /* when it was most */
    size_t estimate_bytes; /* in use by the program then; 0: no sample was live */
};

void sa_peak_stats(struct sa_peak_stats *ret);

#endif
