/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the footprint (footprint.h). Page heaps ask here, with their lock held, when they take
 * pages into use that held no memory: over the hard limit they leave it and fail, over the soft
 * limit the request stands, and `soft_due` tells the layers above to release something. Without
 * limits that is a load and a compare.
 *
 * The hard limit holds between heaps without a lock that they share: each first says what it has
 * taken, then reads what all have (both sequentially consistent), so of two that take the last of
 * it at once at least one sees the other. Records are not refused: what was begun can be finished,
 * and so the footprint may pass the limit by records alone; the next request for pages then fails.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_LIMITS_H
#define SA_PAGE_HEAP_ACCOUNT_LIMITS_H

#include "alloc/page_heap/account/footprint.h"

#include <stdbool.h>

#define SA_NO_LIMIT SIZE_MAX

/* Once passed, the soft limit is passed again only after the footprint, or what of it is not free,
 * was below it by this part of it. */
#define SA_SOFT_LIMIT_PART 32

/* Bits of `active`: what the program has set; what the front end has set near the limit of the
 * control group. */
#define SA_LIMITS_OWN   1
#define SA_LIMITS_GROUP 2

/* The first mark: far below any limit that makes sense, and beyond what small programs use. */
#define SA_WATCH_FIRST_BYTES (16ul << 20)

/* The mark for the next look was reached, and the look is to come. */
#define SA_WATCH_PASSED UINT64_MAX

enum sa_limit_kind { SA_LIMIT_SOFT, SA_LIMIT_HARD, SA_LIMITS };

/* All atomic, relaxed. */
struct sa_limits {
    unsigned char active;    /* there is a limit: bits, as above */
    bool soft_due;           /* the footprint has grown beyond the soft limit */
    bool soft_passed;        /* and could not be brought back: the program has been told */
    size_t bytes[SA_LIMITS]; /* SA_NO_LIMIT or, where not active, 0: none; written by one thread at
                                a time */
    size_t group_bytes; /* the soft limit near the limit of the control group, where there is no
                           other */
    /* Pages of the footprint at which the front end looks at the control group; 0: never;
     * SA_WATCH_PASSED. And when it does in any case; 0: never. */
    uint64_t watch, look_ns;
    uint64_t refused; /* requests of page heaps beyond the hard limit; a retry counts again */
    /* Times that there was more than the limit allows, of those the ones in which releasing
     * sufficed, and what was released. Written by the front end. */
    uint64_t hits[SA_LIMITS], shrinks[SA_LIMITS], released_bytes[SA_LIMITS];
    uint64_t soft_calls; /* times that the program was told */
};

extern struct sa_limits sa_limits;

void sa_limits_set(enum sa_limit_kind kind, size_t bytes);
size_t sa_limits_own(enum sa_limit_kind kind); /* what was set */
size_t sa_limits_get(enum sa_limit_kind kind); /* what holds */

SA_INLINE void sa_limits_set_active(unsigned char bit, bool on)
{
    if (on)
        __atomic_fetch_or(&sa_limits.active, bit, __ATOMIC_RELEASE);
    else
        __atomic_fetch_and(&sa_limits.active, (unsigned char)~bit, __ATOMIC_RELEASE);
}

/* A soft limit that holds where the program has set none. SA_NO_LIMIT: none. */
SA_INLINE void sa_limits_set_group(size_t bytes)
{
    sa_store_relaxed(&sa_limits.group_bytes, bytes);
    sa_limits_set_active(SA_LIMITS_GROUP, bytes != SA_NO_LIMIT);
}

/* The footprint has reached `watch`. */
void sa_limits_watch_passed(void);

SA_INLINE bool sa_limits_active(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_limits.active));
}

/*
 * Has requests of this thread pass the hard limit by up to so many MiB, 0: by nothing. A report,
 * which says what the memory went to, is had at the limit, too.
 */
void sa_limits_pass(size_t mib);

/*
 * A heap, of which used_bytes hold memory now, has grown by grown bytes: 0, or by how much that is
 * too much. In that case the heap leaves it, or undoes it, and calls sa_footprint_note.
 */
size_t sa_limits_over(unsigned heap, size_t used_bytes, size_t grown);

/* Whether a request of so much is beyond the hard limit by itself, so that nothing that is given
 * back helps. */
bool sa_limits_hopeless(size_t bytes);

/* So much is used: whether the soft limit can be passed anew. */
void sa_limits_rearm(size_t used);

/* By how many bytes the footprint would be beyond the hard limit if it grew by so much. */
size_t sa_limits_lacking(size_t bytes);

/* Whether the footprint may grow by so much as far as the hard limit goes. A hint: others grow,
 * too. */
bool sa_limits_have_room(size_t bytes);

/* Whether memory may be taken before it is needed, so much at least: a hint. Not near the limit of
 * the control group. */
SA_INLINE bool sa_limits_plenty(size_t bytes)
{
    return !(sa_load_relaxed(&sa_limits.active) & SA_LIMITS_GROUP) && sa_limits_have_room(bytes);
}

/* Notes, and returns, what was released because of a limit. */
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

/* Bytes beyond a limit, 0 if there are none. */
size_t sa_limits_excess(enum sa_limit_kind kind);

#endif
