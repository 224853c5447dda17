/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Central free lists; see central_free_list.h for the calls, central_spans.h for the invariants.
 *
 * Each span has a bitmap of its free objects. The central free list never writes to a freed object,
 * so memory that nobody uses is not touched. The page heap is called without the lock.
 *
 * A class of many spans takes several neighbouring spans at a time. Classes that grow side by side
 * would otherwise each get every other page. Spans that no object was taken from for a while go
 * back to the page heap.
 */
#include "alloc/middle/central_free_list.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_emptied.h"
#include "alloc/middle/central_mix.h"
#include "alloc/middle/central_spans.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/span_objects.h"
#include "alloc/os/lock.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/arena.h"
#include "pagemap/pagemap.h"

#include <string.h>

/* Spans of more objects than this are likely to stay in use for long: see the page heap. */
#define DENSE_OBJECTS 16

/* New spans of a call beyond the first: at most this part of the class's; none of fewer objects. */
#define FRESH_FRACTION 16
#define FRESH_OBJECTS  4

/* New spans of many objects are taken in runs of this part of those that the class has. */
#define RUN_FRACTION 32
#define RUN_MAX      16

static SA_START_DATA bool central_runs; /* atomic, relaxed: there was a run of more than one span */

/* A span from the page heap: all its objects are free, it is in no list, and no pointer into it is
 * valid yet. NULL: out of memory. */
static struct sa_span *central_new_span(unsigned cls, struct central *c)
    SA_EXCLUDES(SA_RANK_CENTRAL)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    bool aligned = k->map_step == SA_PAGE_BYTES && sa_is_pow2(k->pages);
    struct sa_span *s =
        sa_page_heap_alloc(&sa_page_heap_ordinary, k->pages, aligned ? k->pages : 1,
                           k->objects > DENSE_OBJECTS ? SA_PAGES_DENSE : SA_PAGES_ANY);
    uint64_t *bits;

    if (!s)
        return NULL;
    s->objects = k->objects;
    sa_store_relaxed(&s->live, 0);
    s->pins = 0;
    s->list = NO_LIST;
    if (k->objects > 64) {
        sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
        bits = c->unused_bits;
        if (bits)
            c->unused_bits = (uint64_t *)bits[0];
        sa_lock_release(&c->lock, SA_RANK_CENTRAL);
        if (!bits)
            bits = sa_arena_alloc(sa_span_words(s) * 8, 8);
        if (!bits) {
            sa_page_heap_free(&sa_page_heap_ordinary, s, s->zeroed);
            return NULL;
        }
        s->more_bits = bits;
    }
    bits = sa_span_bits(s);
    for (size_t w = 0; w < sa_span_words(s); w++)
        bits[w] = ~0ull;
    if (k->objects % 64)
        bits[sa_span_words(s) - 1] = (1ull << k->objects % 64) - 1;
    if (SA_UNLIKELY(sa_hardening.canaries))
        sa_span_mark_fresh(s, k->size);
    sa_store_relaxed(&s->cls, (uint8_t)cls);
    sa_store_relaxed(&s->state, SA_SPAN_MOVING);
    sa_pagemap_set_pages(s);
    return s;
}

/* The first object of a new span is about to be taken: pointers into the span are valid from now
 * on. */
static void central_begin(struct sa_span *s) SA_REQUIRES(SA_RANK_CENTRAL)
{
    SA_DCHECK(s->state == SA_SPAN_MOVING && s->live == 0);
    sa_store_relaxed(&s->state, SA_SPAN_OBJECTS);
    sa_pagemap_set_objects(s, sa_size_classes.of[s->cls].map_step);
}

SA_RARE bool sa_central_has(unsigned cls)
{
    return (sa_load_relaxed(&sa_centrals[sa_first_use_index(cls)].filled) & ~(1u << NEW_LIST)) != 0;
}

/* How many new spans a class takes at a time, at least 1. */
static size_t central_run(const struct central *c, unsigned cls) SA_REQUIRES(SA_RANK_CENTRAL)
{
    if (sa_size_classes.of[cls].objects <= DENSE_OBJECTS || sa_hardening.canaries ||
        sa_limits_active())
        return 1; /* canaries are written to the whole span; under a limit, no memory is taken that
                     may stay unused */
    return sa_min(sa_max(c->spans / RUN_FRACTION, 1), RUN_MAX);
}

/* Adds up to `run` new spans to the class; how many. Releases the lock meanwhile. */
static size_t central_grow(struct central *c, unsigned cls, size_t run) SA_REQUIRES(SA_RANK_CENTRAL)
{
    struct sa_span *made[RUN_MAX];
    size_t n = 0;

    SA_DCHECK(run >= 1 && run <= RUN_MAX);
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    while (n < run && (made[n] = central_new_span(cls, c)))
        n++;
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    if (n > 1)
        sa_store_relaxed(&central_runs, true);
    for (size_t i = n; i--;) { /* the first one is in front, and is used first */
        central_link(c, made[i], NEW_LIST);
        central_count_free(c, made[i]->objects);
    }
    sa_count_add(&c->spans, n);
    c->requested += n;
    c->utilization[0] += (uint32_t)n;
    return n;
}

/* Takes up to n objects from mixed spans, before `end`; how many. Releases the lock meanwhile. */
static size_t central_mix(struct central *c, unsigned cls, void **end, size_t n, size_t most_align)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    size_t got;

    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    got = sa_central_mix(cls, end, n, most_align);
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    return got;
}

/* As sa_central_remove. most_align: as for sa_mixed_take. */
static size_t central_remove(unsigned cls, void **objs, size_t n, size_t most_align)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    size_t size = sa_size_classes.of[cls].size, got = 0, fresh = 0;
    void **end = objs + n; /* objects of the first span come last: caches are stacks */

    SA_DCHECK(cls && cls < sa_size_classes.count && n);
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    while (got < n) {
        struct sa_span *s;
        unsigned before;
        size_t took, made;
        uint64_t bits;

        /* A class of few spans takes one new span; a class of many completes the batch. */
        if (!c->filled && got &&
            ((fresh + 1) * FRESH_FRACTION > c->spans ||
             sa_size_classes.of[cls].objects < FRESH_OBJECTS))
            break;
        if (!c->filled && SA_UNLIKELY(sa_central_mix_may())) {
            made = central_mix(c, cls, end, n - got, most_align);
            end -= made;
            got += made;
            if (made)
                continue;
        }
        if (!c->filled) {
            made = central_grow(c, cls, central_run(c, cls));
            if (!made)
                break;
            fresh += made;
            continue; /* other threads may have taken objects meanwhile */
        }
        s = c->lists[sa_lowest_bit(c->filled)];
        SA_DCHECK(s->cls == cls && s->live < s->objects);
        before = central_load(s);
        if (!before)
            central_begin(s);
        bits = s->bits;
        took = SA_UNLIKELY(sa_hardening.scatter) ? sa_span_take_scattered(s, size, end, n - got)
                                                 : sa_span_take(s, size, end, n - got);
        if (SA_UNLIKELY(sa_load_relaxed(&sa_central_empties)))
            sa_central_refill(c, s, bits & ~s->bits);
        SA_DCHECK(took && took <= c->free_objects);
        end -= took;
        central_count_free(c, -took);
        got += took;
        central_place(c, s, before);
        c->new_min = sa_min(c->new_min, c->utilization[0]);
    }
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    if (SA_UNLIKELY(end != objs))
        memmove(objs, end, got * sizeof(*objs));
    /* The objects are cold, and the program is about to use them one after the other. */
    for (size_t i = got; i--;)
        __builtin_prefetch(objs[i], 1);
    return got;
}

size_t sa_central_remove(unsigned cls, void **objs, size_t n)
{
    return central_remove(cls, objs, n, SA_MIXED_ALIGN);
}

SA_RARE void *sa_central_remove_aligned(unsigned cls)
{
    void *object;

    return central_remove(cls, &object, 1, SA_PAGE_BYTES) ? object : NULL;
}

/* Takes an empty span, whose load was `before`, off a class, to be given back after `next`. */
static struct sa_span *central_drop(struct central *c, struct sa_span *s, unsigned before,
                                    struct sa_span *next) SA_REQUIRES(SA_RANK_CENTRAL)
{
    SA_DCHECK_HELD(SA_RANK_CENTRAL);
    SA_DCHECK(central_load(s) == 0);
    if (SA_UNLIKELY(sa_load_relaxed(&sa_central_empties)))
        sa_central_refill(c, s, ~0ull);
    central_leave(c, s, before);
    s->next = next;
    s->zeroed = s->zeroed && !before && !sa_hardening.canaries; /* nothing was written yet */
    sa_store_relaxed(&s->state, SA_SPAN_MOVING);
    if (s->objects > 64)
        central_keep_bits(c, s->more_bits);
    return s;
}

/* Takes up to n new spans off a class. */
static struct sa_span *central_drop_new(struct central *c, size_t n, struct sa_span *next)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    while (n-- && c->lists[NEW_LIST])
        next = central_drop(c, c->lists[NEW_LIST], 0, next);
    return next;
}

/* Prefetches the span records of the objects, which may lie on as many spans as there are objects.
 * The processor then waits for all records at once, and no thread for the lock meanwhile. */
static void prefetch_spans(void *const *objs, size_t n)
{
    uintptr_t page = 0;

    for (size_t i = 0; i < n; i++) {
        uintptr_t p = (uintptr_t)objs[i];

        if (p >> SA_PAGE_SHIFT == page)
            continue;
        page = p >> SA_PAGE_SHIFT;
        __builtin_prefetch(sa_pagemap_span(p), 1);
    }
}

void sa_central_insert(unsigned cls, void *const *objs, size_t n)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    struct sa_span *empty = NULL;
    enum sa_span_fault fault = SA_SPAN_RIGHT;
    size_t i = 0;

    SA_DCHECK(cls && cls < sa_size_classes.count);
    prefetch_spans(objs, n);
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    while (i < n) {
        struct sa_span *s = sa_pagemap_span((uintptr_t)objs[i]);
        unsigned before = s && central_owns(s, cls) ? central_load(s) : 0;
        size_t put;

        put = sa_span_put(s, cls, objs + i, n - i, &fault);
        /* The record of a mixed span may be in use for something else by now. */
        if (SA_UNLIKELY(fault != SA_SPAN_RIGHT) && !put && sa_mixed_put(cls, objs[i], &empty)) {
            fault = SA_SPAN_RIGHT;
            i++;
            continue;
        }
        central_count_free(c, put);
        i += put;
        if (SA_UNLIKELY(fault != SA_SPAN_RIGHT))
            break;
        if (central_load(s) == 0)
            empty = central_drop(
                c, s, before, central_drop_new(c, c->utilization[0] >= central_run(c, cls), empty));
        else
            central_place(c, s, before);
    }
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    if (SA_UNLIKELY(fault == SA_SPAN_FOREIGN) &&
        (sa_page_heap_is_free(&sa_page_heap_ordinary, (uintptr_t)objs[i]) ||
         sa_mixed_is_free((uintptr_t)objs[i])))
        fault = SA_SPAN_TWICE; /* all objects of the span were free, and now the span is free */
    if (SA_UNLIKELY(fault == SA_SPAN_TWICE))
        sa_fatal("double free", objs[i], "was freed before (block of %u bytes)",
                 sa_size_classes.of[cls].size);
    if (SA_UNLIKELY(fault == SA_SPAN_FOREIGN))
        sa_fatal("invalid free", objs[i], "is not the start of a block of %u bytes",
                 sa_size_classes.of[cls].size);
    sa_central_give_back(empty);
}

/* Gives new spans of every class back: all of them, or those that no object was taken from since
 * the last call. */
SA_RARE SA_NOINLINE static void central_each_drop_new(bool all)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_span *unused;
        struct central *c;

        if (!sa_class_is_used(cls))
            continue;
        c = &sa_centrals[sa_first_use_index(cls)];
        if (!(sa_load_relaxed(&c->filled) & 1u << NEW_LIST))
            continue;
        sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
        unused = central_drop_new(c, all ? SIZE_MAX : c->new_min, NULL);
        c->new_min = c->utilization[0];
        sa_lock_release(&c->lock, SA_RANK_CENTRAL);
        sa_central_give_back(unused);
    }
}

void sa_central_plunder(void)
{
    SA_VALIDATE(sa_central_validate());
    SA_VALIDATE(sa_mixed_validate());
    if (sa_load_relaxed(&central_runs))
        central_each_drop_new(false);
}

SA_RARE void sa_central_flush(void)
{
    central_each_drop_new(true);
}

SA_RARE bool sa_central_pin(unsigned cls, void *object, bool pin)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    struct sa_span *s = sa_pagemap_span((uintptr_t)object), *empty = NULL;

    SA_DCHECK(s && cls && cls < sa_size_classes.count);
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    SA_DCHECK(pin || s->pins);
    bool done = sa_span_pin(s, cls, object, pin);
    if (done && !central_load(s))
        empty = central_drop(c, s, 1, NULL);
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    sa_central_give_back(empty);
    return done;
}

/* Counts a span of one object, which is in use, as a span of the class; or the class has one less.
 */
SA_RARE static void central_count(unsigned cls, bool joins)
{
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    int64_t bytes = sa_size_classes.of[cls].size;

    sa_in_use_add(joins ? bytes : -bytes);
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    if (joins) {
        sa_count_add(&c->spans, 1);
        c->requested++;
        c->utilization[central_bucket(1)]++;
    } else {
        SA_DCHECK(c->spans && c->utilization[central_bucket(1)]);
        sa_count_add(&c->spans, -(size_t)1);
        c->returned++;
        c->utilization[central_bucket(1)]--;
    }
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
}

SA_RARE bool sa_central_extend(struct sa_span *s, unsigned cls)
{
    SA_DCHECK(s->state == SA_SPAN_OBJECTS && s->objects == 1 && s->live == 1);
    if (!sa_page_heap_extend(&sa_page_heap_ordinary, s, sa_size_classes.of[cls].pages))
        return false;
    central_count(s->cls, false);
    sa_store_relaxed(&s->cls, (uint8_t)cls);
    sa_pagemap_set_objects(s, sa_size_classes.of[cls].map_step);
    central_count(cls, true);
    return true;
}

SA_RARE bool sa_central_extend_large(struct sa_span *s, size_t pages)
{
    SA_DCHECK(s->state == SA_SPAN_OBJECTS && s->objects == 1 && s->live == 1);
    if (!sa_page_heap_extend(&sa_page_heap_ordinary, s, pages))
        return false;
    central_count(s->cls, false);
    sa_pagemap_clear_classes(s);
    sa_store_relaxed(&s->cls, 0);
    sa_store_relaxed(&s->sample, NULL);
    sa_store_relaxed(&s->state, SA_SPAN_LARGE);
    return true;
}
