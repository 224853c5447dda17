/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spans of one class: what central_free_list.c, central_mix.c and central_empty.c change, and
 * central_validate.c checks.
 *
 * A span with free objects is in one of eight lists, chosen by its load; a span without is in none.
 * A span without live objects is new, or on its way to the page heap. The lock (CENTRAL) guards the
 * lists, and the bitmaps and live counts of the spans.
 *
 * Invariants: C1  free_objects = sum over spans of (objects - live); each bitmap has as many bits.
 *             C2  span->list names the list that the span is in, or NO_LIST.
 *             C3  utilization adds up to spans: each span counts in the bucket of its load.
 */
#ifndef SA_MIDDLE_CENTRAL_SPANS_H
#define SA_MIDDLE_CENTRAL_SPANS_H

#include "alloc/base/attrs.h"
#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/lock.h"
#include "pagemap/span.h"

#define LISTS    8
#define NEW_LIST (LISTS - 1) /* new spans, those of a run in the order of their addresses */
#define NO_LIST  LISTS

struct central {
    struct sa_lock lock;
    /* A bit for each list that is not empty; read without the lock, as a hint. */
    uint8_t filled SA_GUARDED_BY(SA_RANK_CENTRAL);
    /* List 0 has the fullest spans. */
    struct sa_span *lists[LISTS] SA_GUARDED_BY(SA_RANK_CENTRAL);
    /* Bitmaps of returned spans, linked through their first word. */
    uint64_t *unused_bits SA_GUARDED_BY(SA_RANK_CENTRAL);
    /* Atomic: read without the lock, as hints. */
    size_t free_objects SA_GUARDED_BY(SA_RANK_CENTRAL);
    size_t spans SA_GUARDED_BY(SA_RANK_CENTRAL);
    /* Pages of free objects that hold no memory, see sa_central_empty. */
    size_t emptied_bytes SA_GUARDED_BY(SA_RANK_CENTRAL);
    uint64_t requested SA_GUARDED_BY(SA_RANK_CENTRAL);
    uint64_t returned SA_GUARDED_BY(SA_RANK_CENTRAL);
    /* The least number of new spans since sa_central_plunder. */
    uint32_t new_min SA_GUARDED_BY(SA_RANK_CENTRAL);
    /* Spans by load. */
    uint32_t utilization[SA_CENTRAL_BUCKETS] SA_GUARDED_BY(SA_RANK_CENTRAL);
} __attribute__((aligned(SA_CACHELINE)));

/* A program touches the lists of few classes, but has a page of memory for each 4 KiB of them. */
SA_STATIC_ASSERT(sizeof(struct central) == 3 * SA_CACHELINE, "three cache lines a class");

extern struct central sa_centrals[SA_CLASSES_MAX]; /* by sa_first_use_index */

/* The load of a span: its live objects, or 1 if it has none and is pinned. */
static inline unsigned central_load(const struct sa_span *s)
{
    return s->live || !s->pins ? s->live : 1;
}

/* Whether a span, of whose record this may be a stale pointer, is one of the class. Its lock is
 * held, so a span of the class stays one. */
static inline bool central_owns(const struct sa_span *s, unsigned cls) SA_REQUIRES(SA_RANK_CENTRAL)
{
    return sa_load_relaxed(&s->cls) == cls && sa_load_relaxed(&s->state) == SA_SPAN_OBJECTS;
}

/* Counts free objects that come, or go (modulo 2^64). */
static inline void central_count_free(struct central *c, size_t objects)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    sa_count_add(&c->free_objects, objects);
}

/* The bucket of a load: 0, 1, 2 to 3, 4 to 7 and so on. */
static inline unsigned central_bucket(unsigned load)
{
    return load ? (unsigned)sa_min(sa_log2(load) + 1, SA_CENTRAL_BUCKETS - 1) : 0;
}

/* The list of a span with free objects. Fuller spans come first. The last lists stand for one live
 * count each if the span has at most 16 objects, and for a power of two otherwise. */
static inline unsigned central_list_for(const struct sa_span *s)
{
    unsigned live = central_load(s);

    if (!live)
        return NEW_LIST;
    return NEW_LIST - sa_min(s->objects <= 16 ? live : (unsigned)sa_log2(live) + 1, NEW_LIST);
}

/* Takes a span out of its list, if it is in one. */
static inline void central_unlink(struct central *c, struct sa_span *s) SA_REQUIRES(SA_RANK_CENTRAL)
{
    if (s->list == NO_LIST)
        return;
    SA_DCHECK(s->list < LISTS && c->filled >> s->list & 1);
    SA_DCHECK(s->prev ? s->prev->next == s : c->lists[s->list] == s);
    if (s->next)
        s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else if (!(c->lists[s->list] = s->next))
        sa_store_relaxed(&c->filled, (uint8_t)(c->filled & ~(1u << s->list)));
    s->list = NO_LIST;
}

/* Puts a span in front of a list. */
static inline void central_link(struct central *c, struct sa_span *s, unsigned list)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    SA_DCHECK(s->list == NO_LIST && list < LISTS);
    s->prev = NULL;
    s->next = c->lists[list];
    if (s->next)
        s->next->prev = s;
    c->lists[list] = s;
    sa_store_relaxed(&c->filled, (uint8_t)(c->filled | 1u << list));
    s->list = (uint8_t)list;
}

/* Moves a span, whose load was `before` until its live count changed, to the list and the bucket
 * of its load. */
static inline void central_place(struct central *c, struct sa_span *s, unsigned before)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    unsigned list = s->live == s->objects ? NO_LIST : central_list_for(s);

    SA_DCHECK_HELD(SA_RANK_CENTRAL);
    SA_DCHECK(s->live <= s->objects && c->utilization[central_bucket(before)]);
    c->utilization[central_bucket(before)]--;
    c->utilization[central_bucket(central_load(s))]++;

    if (list == s->list)
        return;
    central_unlink(c, s);
    if (list != NO_LIST)
        central_link(c, s, list);
}

/* Takes a span, whose load was `before` until its last object was freed, off its class. */
static inline void central_leave(struct central *c, struct sa_span *s, unsigned before)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    SA_DCHECK_HELD(SA_RANK_CENTRAL);
    SA_DCHECK(c->spans && c->free_objects >= (size_t)(s->objects - s->live));
    SA_DCHECK(c->utilization[central_bucket(before)]);
    central_unlink(c, s);
    central_count_free(c, -(size_t)(s->objects - s->live));
    sa_count_add(&c->spans, -(size_t)1);
    c->returned++;
    c->utilization[central_bucket(before)]--;
}

/* Keeps the bitmap of a span that has left the class for the next one. */
static inline void central_keep_bits(struct central *c, uint64_t *bits) SA_REQUIRES(SA_RANK_CENTRAL)
{
    bits[0] = (uint64_t)c->unused_bits;
    c->unused_bits = bits;
}

/* Gives a list of MOVING spans, linked by next, to the page heap. */
void sa_central_give_back(struct sa_span *s) SA_EXCLUDES(SA_RANK_CENTRAL);

#endif
