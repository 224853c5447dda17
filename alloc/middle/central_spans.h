/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spans of a class, in lists by their live objects. Private to central_free_list.c, whose
 * invariants C1 to C3 are about this, and central_empty.c. The lock of the class (CENTRAL) guards
 * everything here.
 */
#ifndef SA_MIDDLE_CENTRAL_SPANS_H
#define SA_MIDDLE_CENTRAL_SPANS_H

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/lock.h"
#include "pagemap/span.h"

#define LISTS    8
#define NEW_LIST (LISTS - 1) /* new spans; those of a run in the order in which they came */
#define NO_LIST  LISTS

struct central {
    struct sa_lock lock;
    uint8_t filled;               /* bit set = list not empty; read without the lock, as a hint */
    struct sa_span *lists[LISTS]; /* list 0: fullest spans */
    uint32_t new_least;           /* new spans since sa_central_plunder, at least */
    uint64_t *unused_bits;        /* bitmaps of returned spans, linked through their first word */
    size_t free_objects, spans;
    size_t emptied_bytes; /* pages of free objects that hold no memory, see sa_central_empty */
    uint64_t requested, returned;
    uint32_t utilization[SA_CENTRAL_BUCKETS]; /* spans by live objects */
} __attribute__((aligned(SA_CACHELINE)));

extern struct central sa_centrals[SA_CLASSES_MAX]; /* by sa_class_place */

/* Live objects; a span that is pinned has at least one. */
static inline unsigned central_load(const struct sa_span *s)
{
    return s->live || !s->pins ? s->live : 1;
}

/* Fuller spans come first; below 17 objects live counts are told apart one by one at the end. */
static inline unsigned central_list_for(const struct sa_span *s)
{
    unsigned live = central_load(s);

    if (!live)
        return NEW_LIST;
    return NEW_LIST - sa_min(s->objects <= 16 ? live : (unsigned)sa_log2(live) + 1, NEW_LIST);
}

static inline void central_unlink(struct central *c, struct sa_span *s)
{
    if (s->list == NO_LIST)
        return;
    if (s->next)
        s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else if (!(c->lists[s->list] = s->next))
        sa_store_relaxed(&c->filled, (uint8_t)(c->filled & ~(1u << s->list)));
    s->list = NO_LIST;
}

static inline void central_link(struct central *c, struct sa_span *s, unsigned list)
{
    s->prev = NULL;
    s->next = c->lists[list];
    if (s->next)
        s->next->prev = s;
    c->lists[list] = s;
    sa_store_relaxed(&c->filled, (uint8_t)(c->filled | 1u << list));
    s->list = (uint8_t)list;
}

static inline unsigned central_bucket(unsigned live)
{
    return live ? (unsigned)sa_min(sa_log2(live) + 1, SA_CENTRAL_BUCKETS - 1) : 0;
}

/* Puts a span with `before` live objects, until their number changed, where it belongs. */
static inline void central_place(struct central *c, struct sa_span *s, unsigned before)
{
    unsigned list = s->live == s->objects ? NO_LIST : central_list_for(s);

    c->utilization[central_bucket(before)]--;
    c->utilization[central_bucket(central_load(s))]++;

    if (list == s->list)
        return;
    central_unlink(c, s);
    if (list != NO_LIST)
        central_link(c, s, list);
}

#endif
