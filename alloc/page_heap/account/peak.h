/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment of the highest footprint (footprint.h). Realized fragmentation compares the footprint
 * at that moment with the sampler's estimate of what the program had in use.
 *
 * The footprint grows only when pages are handed out, so each page heap calls sa_peak_note there,
 * with its lock held. One word holds both values of the peak, so that they are of the same moment
 * without a lock: 32 bits each, in pages of SA_PAGE_BYTES.
 *
 * The second part finds the moment of the peak profile, when the program had most in use. This use
 * is counted and not estimated. It is the large blocks and the objects that the middle layer has
 * given out, each with the size that it occupies, less the objects in the caches of CPUs. What was
 * given out is counted as it changes. The caches are counted only while more is given out than the
 * high-water mark, without which the mark cannot rise, and only if one of two conditions holds:
 *
 * - Since the last count, 1/SA_IN_USE_FRACTION of the mark was given out, whatever came back. This
 *   finds the peaks of a heap that has been as large before.
 * - 1/SA_IN_USE_FRACTION more is given out than at any count before. This finds each peak of a heap
 *   that grows. It happens at most SA_IN_USE_FRACTION times until the heap is e times as large.
 *
 * The mark is too low by that much at most. With many caches both thresholds are higher
 * (SA_IN_USE_MIN, SA_IN_USE_GROWN), because the time of a count is proportional to the number of
 * caches. A count also fetches the lines of other CPUs' caches, about 1 us a CPU, and takes them
 * from those CPUs. With the caches of several CPUs, the first condition therefore waits for the
 * next tick of the coarse clock, and for SA_IN_USE_PAUSE for each cache. It does not wait once its
 * threshold more is given out, less what came back, than at the last count. What the caches held
 * then may be in use meanwhile without being seen.
 *
 * Sampling does not matter: a sampled block counts with the size of its class, with or without a
 * proxy, and a freed block in the sample quarantine does not count.
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

#define SA_IN_USE_FRACTION 256
#define SA_IN_USE_MIN      65536 /* bytes per counted cache: the least threshold */
#define SA_IN_USE_GROWN    8     /* for a heap that grows, only 1 of 8 caches counts for it */
#define SA_IN_USE_FREE     2     /* with at most that many caches, of one CPU, no count waits */
#define SA_IN_USE_PAUSE    25000 /* ns per counted cache */

/* ns: a longer one is none. 40,000 caches have that much. */
#define SA_IN_USE_PAUSE_MAX 1000000000ull

struct sa_in_use {
    int64_t bytes;  /* atomic, relaxed: given out, cached or not */
    int64_t given;  /* the same: given out since the start; an update may be lost */
    int64_t peak;   /* the same: high-water mark of what is in use */
    int64_t next;   /* `given` from which the caches are counted again */
    int64_t high;   /* `bytes` from which they are counted, too */
    int64_t alarm;  /* atomic: a mark that rings `bell` when it is reached; 0: none. The thread that
                       sets it (release) set `bell` before; the thread that finds it reached clears
                       it (acquire) */
    uint32_t *bell; /* atomic: a futex word, see sa_in_use_watch */
    uint64_t waiting; /* atomic, relaxed: 1: a count may have to wait */
} __attribute__((aligned(SA_CACHELINE)));

extern struct sa_peak sa_peak;
extern struct sa_in_use sa_in_use;

/* Adds bytes that were given out. A negative number: they came back. */
SA_INLINE void sa_in_use_add(int64_t bytes)
{
    sa_count_shared((uint64_t *)&sa_in_use.bytes, (uint64_t)bytes);
    if (bytes > 0)
        sa_count_add(&sa_in_use.given, bytes);
}

/* Returns the bytes that the program has. For a moment, what one thread gave back may count before
 * what another took: then it is 0. */
SA_INLINE size_t sa_in_use_bytes(void)
{
    int64_t bytes = sa_load_relaxed(&sa_in_use.bytes);

    return bytes > 0 ? (size_t)bytes : 0;
}

/* True if the program may have more in use than ever before and a count of the caches is due. */
SA_INLINE bool sa_in_use_may_be_peak(void)
{
    int64_t bytes = sa_load_relaxed(&sa_in_use.bytes);

    return bytes > sa_load_relaxed(&sa_in_use.peak) &&
           (sa_load_relaxed(&sa_in_use.given) >= sa_load_relaxed(&sa_in_use.next) ||
            bytes >= sa_load_relaxed(&sa_in_use.high));
}

/*
 * Notes that `bytes` are in use, for which `caches` caches were counted. If that is a new
 * high-water mark, the call that this thread is in is marked: a block that the call samples was in
 * use then.
 */
void sa_in_use_note(int64_t bytes, int caches);

/* The part of sa_in_use_must_wait for programs on several CPUs. */
bool sa_in_use_is_to_wait(void);

/* With sa_in_use_may_be_peak: true if the count is to wait. */
SA_INLINE bool sa_in_use_must_wait(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_in_use.waiting)) && sa_in_use_is_to_wait();
}

/*
 * Watches for a high-water mark of `more` bytes above the present one: the slow path that reaches
 * it adds 1 to *bell, and wakes a thread that waits for that. One thread calls this and
 * sa_in_use_has_grown, always with the same word.
 */
void sa_in_use_watch(size_t more, uint32_t *bell);

/* Whether that mark was reached since sa_in_use_watch. */
bool sa_in_use_has_grown(void);

/* Sampling was turned on: forgets the high-water mark of the time before. */
void sa_in_use_restart(void);

/* Called when a heap has handed out pages: `used_bytes` of it are backed now. `more_bytes` of them
 * are the program's, and no sample counts them yet. */
void sa_peak_note(unsigned heap, size_t used_bytes, size_t more_bytes);

struct sa_peak_stats {
    size_t used_bytes;     /* the highest footprint */
    size_t estimate_bytes; /* in use by the program at that moment; 0: no sample was live */
};

void sa_peak_stats(struct sa_peak_stats *ret);

#endif
