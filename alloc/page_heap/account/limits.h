/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the footprint (footprint.h). A page heap asks here, with its lock held, when a request
 * takes unbacked pages into use. Over the hard limit, the heap does not take them and the request
 * fails. Over the soft limit, the request succeeds, and `soft_due` tells the layers above to
 * release memory. Without limits, the check is a load and a compare.
 *
 * The hard limit holds across heaps without a shared lock. Each heap first stores its new use,
 * then loads the use of all heaps. Both are sequentially consistent. If two heaps take the last
 * room at once, at least one of them sees the other. Requests for records are not refused, so that
 * an operation that has begun can finish. The footprint may therefore pass the limit by records
 * alone; the next request for pages then fails.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_LIMITS_H
#define SA_PAGE_HEAP_ACCOUNT_LIMITS_H

#include "alloc/page_heap/account/footprint.h"

#include <stdbool.h>

#define SA_NO_LIMIT SIZE_MAX

/* Once passed, the soft limit can be passed again only after usage was below it by
 * 1/SA_SOFT_LIMIT_FRACTION. Usage is the footprint, or the footprint less the free pages. */
#define SA_SOFT_LIMIT_FRACTION 32

/* Bits of `active`: the program has set a limit; a soft limit holds near the limit of the control
 * group. */
#define SA_LIMITS_OWN   1
#define SA_LIMITS_GROUP 2

/* The first value of `watch`: far below any limit that makes sense, and more than small programs
 * use. */
#define SA_WATCH_FIRST_BYTES (16ul << 20)

/* The value of `watch` once the footprint has reached the mark and the control group has not been
 * examined yet. */
#define SA_WATCH_PASSED UINT64_MAX

enum sa_limit_kind { SA_LIMIT_SOFT, SA_LIMIT_HARD, SA_LIMITS };

/* All atomic, relaxed, except that `active` is written with release order and read with acquire
 * order where its limits are read next. */
struct sa_limits {
    unsigned char active;    /* not 0: there is a limit; bits as above */
    bool soft_due;           /* the footprint has grown beyond the soft limit */
    bool soft_passed;        /* the footprint could not be reduced to it, and the program has
                              * been told */
    size_t bytes[SA_LIMITS]; /* SA_NO_LIMIT or, without SA_LIMITS_OWN, 0: none; written by one
                              * thread at a time */
    size_t group_bytes; /* the soft limit near the control group's limit, if the program has set
                         * none */
    /* watch: the footprint, in pages, at which the control group is examined; 0: never; or
     * SA_WATCH_PASSED. look_ns: the time at which it is examined in any case; 0: never. */
    uint64_t watch, look_ns;
    uint64_t refused; /* requests that page heaps refused because of the hard limit; a retry
                       * counts again */
    /* For each limit: times that usage exceeded it, times that releasing memory was enough, and
     * bytes released. Written by the front end. */
    uint64_t hits[SA_LIMITS], shrinks[SA_LIMITS], released_bytes[SA_LIMITS];
    uint64_t soft_calls; /* times that the program was told */
    size_t keep;         /* pages; see sa_limits_keep */
};

extern struct sa_limits sa_limits;

void sa_limits_set(enum sa_limit_kind kind, size_t bytes);
size_t sa_limits_own(enum sa_limit_kind kind); /* the limit that the program has set */
size_t sa_limits_get(enum sa_limit_kind kind); /* the limit that applies */

SA_INLINE void sa_limits_set_active(unsigned char bit, bool on)
{
    if (on)
        __atomic_fetch_or(&sa_limits.active, bit, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&sa_limits.active, (unsigned char)~bit, __ATOMIC_RELEASE);
}

/* Sets a soft limit that applies while the program has set none. SA_NO_LIMIT: none. */
SA_INLINE void sa_limits_set_group(size_t bytes)
{
    sa_store_relaxed(&sa_limits.group_bytes, bytes);
    sa_limits_set_active(SA_LIMITS_GROUP, bytes != SA_NO_LIMIT);
}

/*
 * Free pages that the ordinary heap does not release by itself, but at a request or beyond a limit.
 * SA_KEEP_ALL: nothing that was touched is released by any part of the allocator, and no freed
 * block is made inaccessible. The pages of a program that has prepared its heap stay as they are.
 */
#define SA_KEEP_ALL SIZE_MAX

SA_INLINE size_t sa_limits_keep(void)
{
    return sa_load_relaxed(&sa_limits.keep);
}

SA_INLINE bool sa_limits_keep_all(void)
{
    return SA_UNLIKELY(sa_limits_keep() == SA_KEEP_ALL);
}

/* Called when the footprint has reached `watch`. */
void sa_limits_watch_passed(void);

SA_INLINE bool sa_limits_active(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_limits.active));
}

/*
 * Lets requests of this thread pass the hard limit by up to `mib` MiB; 0: not at all. A report
 * that says where the memory went must work at the limit, too.
 */
void sa_limits_pass(size_t mib);

/*
 * Called when a heap has grown by `grown` bytes, so that `used_bytes` of it are backed now.
 * Returns 0, or the bytes by which that exceeds the hard limit. In that case the heap does not
 * take the pages, or gives them back, and calls sa_footprint_note.
 */
size_t sa_limits_over(unsigned heap, size_t used_bytes, size_t grown);

/* True if a request of `bytes` exceeds the hard limit by itself, so that releasing memory cannot
 * help. */
bool sa_limits_hopeless(size_t bytes);

/* Lets the soft limit be passed anew if `used` bytes are far enough below it
 * (SA_SOFT_LIMIT_FRACTION).
 */
void sa_limits_rearm(size_t used);

/* The bytes by which the footprint would exceed the hard limit if it grew by `bytes`. */
size_t sa_limits_lacking(size_t bytes);

/* True if the hard limit lets the footprint grow by `bytes`. A hint: other threads take memory,
 * too. */
bool sa_limits_have_room(size_t bytes);

/* True if at least `bytes` may be taken before they are needed. A hint. False near the limit of
 * the control group. */
SA_INLINE bool sa_limits_plenty(size_t bytes)
{
    return !(sa_load_relaxed(&sa_limits.active) & SA_LIMITS_GROUP) && sa_limits_have_room(bytes);
}

/* Counts bytes that were released because of a limit, and returns them. */
SA_INLINE size_t sa_limits_released(enum sa_limit_kind kind, size_t bytes)
{
    sa_add_relaxed(&sa_limits.released_bytes[kind], bytes);
    return bytes;
}

struct sa_limit_stats {
    size_t bytes; /* SA_NO_LIMIT: there is none */
    uint64_t hits, shrinks, released_bytes;
};

void sa_limits_stats(enum sa_limit_kind kind, struct sa_limit_stats *ret);

/* Ends the program if the footprint is not the sum of its parts, of which the heap's is used_bytes.
 * The heap's lock is held: account_validate.c. */
void sa_limits_validate(unsigned heap, size_t used_bytes);

/* Bytes beyond a limit, 0 if there are none. */
size_t sa_limits_surplus(enum sa_limit_kind kind);

#endif
