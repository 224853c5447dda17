/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that would do better on another span; see central_move.h. */
#include "alloc/middle/central_move.h"

#include "alloc/base/fatal.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_emptied.h"
#include "alloc/middle/central_mix.h"
#include "alloc/middle/central_spans.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/span_objects.h"
#include "pagemap/pagemap.h"

bool sa_central_worth_moving(const struct sa_span *s, unsigned cls)
{
    const struct central *c = &sa_centrals[sa_first_use_index(cls)];
    size_t objects = sa_size_classes.of[cls].objects;
    size_t live = sa_load_relaxed(&s->live), spans = sa_load_relaxed(&c->spans);
    size_t free_objects = sa_load_relaxed(&c->free_objects);

    if (sa_load_relaxed(&s->state) != SA_SPAN_OBJECTS || sa_load_relaxed(&s->cls) != cls ||
        live >= objects)
        return false;
    /* No division: this is asked for each block of a program. */
    return free_objects - (objects - live) >= live && free_objects >= objects - live &&
           live * spans <= spans * objects - free_objects;
}

/* Returns the first span of the fullest list that has one besides `than`. */
static struct sa_span *fullest(const struct central *c, const struct sa_span *than)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    for (unsigned filled = c->filled & ~(1u << NEW_LIST); filled; filled &= filled - 1) {
        struct sa_span *s = c->lists[sa_lowest_bit(filled)];

        if (s == than)
            s = s->next;
        if (s)
            return s;
    }
    return NULL;
}

/* Takes the first free object of the fullest span of a class, if the span is as full as `than`
 * (NULL: any span with objects in use will do). */
static void *take_fuller(struct central *c, unsigned cls, const struct sa_span *than)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    struct sa_span *s = fullest(c, than);
    unsigned before;
    uint64_t bits;
    void *object = NULL;

    if (!s || (than && central_load(s) < central_load(than)))
        return NULL;
    before = central_load(s);
    bits = s->bits;
    sa_span_take(s, sa_size_classes.of[cls].size, &object + 1, 1);
    if (SA_UNLIKELY(sa_load_relaxed(&sa_central_empties)))
        sa_central_refill(c, s, bits & ~s->bits);
    central_count_free(c, -(size_t)1);
    central_place(c, s, before);
    /* Objects in transfer caches keep their spans, too: see alloc/middle/central_mix.c. */
    sa_add_relaxed(&sa_central_mix_unshaken, sa_size_classes.of[cls].size);
    return object;
}

/* Returns whether a smaller part of a mixed span is in use than of another one. A span counts its
 * length and its use in one measure (pagemap/span.h). */
static bool mixed_is_sparser(const struct sa_span *s, const struct sa_span *than)
{
    return sa_fraction_less(sa_load_relaxed(&s->live), sa_load_relaxed(&s->objects),
                            sa_load_relaxed(&than->live), sa_load_relaxed(&than->objects));
}

/* Takes a block of a class on a fuller mixed span than the one of `object`, aligned as that is: the
 * program may have asked for it. */
SA_RARE static void *take_mixed(unsigned cls, const void *object)
{
    const struct sa_span *from = sa_pagemap_span((uintptr_t)object), *to;
    uintptr_t as = (uintptr_t)object;
    struct sa_span *empty = NULL;
    void *block = NULL;

    if (!sa_mixed_take(cls, &block + 1, 1, sa_min(as & -as, SA_PAGE_BYTES)))
        return NULL;
    to = sa_pagemap_span((uintptr_t)block);
    if (to != from && mixed_is_sparser(from, to))
        return block;
    if (!sa_mixed_put(cls, block, &empty))
        sa_fatal("corrupt heap", block, "was taken from a mixed span and is not on one");
    sa_central_give_back(empty);
    return NULL;
}

SA_RARE void *sa_central_take_better(unsigned cls, const void *object)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    const struct sa_span *s = sa_pagemap_span((uintptr_t)object);
    bool mixed;
    void *better;

    SA_DCHECK(s && cls && cls < sa_size_classes.count);
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    mixed = !central_owns(s, cls);
    better = take_fuller(c, cls, mixed ? NULL : s);
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    return better || !mixed ? better : take_mixed(cls, object);
}
