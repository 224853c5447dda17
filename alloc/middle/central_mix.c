/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When classes take blocks from mixed spans, and which spans become mixed; see central_mix.h.
 *
 * What size classes waste are the free objects of spans that are in use, and the free pages between
 * spans. A class that needs a span compares their bytes with what the program has been given. Above
 * 1/WASTE_FRACTION of that, and above SA_MIX_MIN_BYTES, the sparsest span of any class becomes
 * mixed, up to CONVERT_MAX of them until the class has a block. Below, the class takes a new span,
 * also if mixed spans have room: the fast path of free does not serve what lies on mixed spans.
 * 1/RETURNS_WASTE_FRACTION is enough while blocks go back at once (mixed_returns.h).
 *
 * Mixed spans can save no more than the classes' own mosts, each at its time, exceed the most that
 * all had together. A program whose live blocks are now few and now many has both at one time: it
 * needs its free objects again for the same sizes, and to merge them would take time at each turn
 * and would not lower the peak. So what a class had at most lately counts as its own, also where
 * it now holds less. As long as all this is not 1/WASTE_FRACTION more than what classes had
 * together, a class that has less than it had takes a new span. One that has as much as ever lately
 * is growing beyond what is free for it, and takes from mixed spans.
 *
 * Near a limit on memory, time is worth less than memory, and the kernel may kill the program.
 * Memory is strained if what is in use leaves less than 1/STRAIN_FRACTION of the limit. Then
 * 1/STRAINED_WASTE_FRACTION is enough waste, and spans may become mixed that are up to
 * 1 - 1/ROOM_FRACTION full, the sparsest first. This holds for objects that are shorter than a page
 * of the kernel. Of longer ones, pages of free objects go back instead (central_empty.h), and spans
 * with such pages stay with their class.
 *
 * The sum over all classes is computed only if the whole footprint shows that it may be large
 * enough. The footprint also has whole free hugepages, caches and records.
 *
 * Objects in caches keep their spans from becoming sparse, and free runs apart. For every
 * SHAKE_BYTES that come from mixed spans, the transfer caches therefore pass on what no CPU has
 * taken meanwhile, as they do at maintenance. The CPU caches, whose objects may be of sizes that
 * the program no longer uses, are emptied for every DRAIN_FACTOR times the bytes that they may
 * hold; so no more than a part of what comes from mixed spans goes back there. And the page heap
 * keeps few free pages meanwhile: pages that mixed spans have given up seldom serve others.
 */
#include "alloc/middle/central_mix.h"

#include "alloc/base/first_use_index.h"
#include "alloc/base/hardening.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_emptied.h"
#include "alloc/middle/central_spans.h"
#include "alloc/middle/mixed_returns.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/os/clock.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/heap_types.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "pagemap/pagemap.h"

#define WASTE_FRACTION          5
#define RETURNS_WASTE_FRACTION  6
#define STRAINED_WASTE_FRACTION 16

/* Memory is strained above 15/16 of a limit. The rest is as long as the reserve of group_limit.c.
 */
#define STRAIN_FRACTION 16

#define CONVERT_MAX 4

/* Lately is the present window of the clock and the one before. A program that breathes more slowly
 * has mixed spans once a turn, which then costs little. Changes that are further apart are seen by
 * what the classes hold. With 4 s, node has 2 % more resident (perf/fragmentation/over_live.py). */
#define MOST_NS 16000000000ull

/*
 * The mosts of two windows, by the window's number % 2. Atomic, relaxed; any thread writes. Hints:
 * an update may be lost, and threads that begin a window at once may clear what one of them has
 * noted. Then the window knows less until the next look.
 */
static struct {
    uint64_t window;                     /* the number of the present one */
    size_t together[2];                  /* bytes of all classes */
    uint32_t objects[2][SA_CLASSES_MAX]; /* of each class, in use or in caches */
} most;

/* While what the program has been given grows, there is a look for each such part of it, and each
 * SA_MIX_MIN_BYTES: mosts are seen, and are too low by that much at most. */
#define LOOK_FRACTION 16

int64_t sa_central_mix_look = SA_MIX_MIN_BYTES;

#define SHAKE_BYTES  (1ul << 20)
#define DRAIN_FACTOR 2

size_t sa_central_mix_unshaken, sa_central_mix_shakes;

/* A span is sparse if at most 1/3 of its objects are in use, as far as the lists tell. */
#define SPARSE_FRACTION 3
/* If memory is strained, also if 1/8 of its objects are free. */
#define ROOM_FRACTION 8

/* Spans of a list that are looked at for one that may become mixed, and classes whose lists are. */
#define PINNED_TRIES 4
#define CLASS_TRIES  4

/* Bit n: class n has no span that may become mixed. */
struct mix_tried {
    uint64_t classes[SA_CLASSES_MAX / 64 + 1];
};

/* Whether `bytes` of memory are much more than the `given` bytes that the program has. */
static bool mix_is_much(size_t bytes, size_t given, bool strained)
{
    size_t wasted = bytes - sa_min(bytes, given), fraction = WASTE_FRACTION;

    if (SA_UNLIKELY(strained))
        fraction = STRAINED_WASTE_FRACTION;
    else if (sa_load_relaxed(&sa_mixed_returns))
        fraction = RETURNS_WASTE_FRACTION;
    return wasted > SA_MIX_MIN_BYTES && wasted > given / fraction;
}

/* Whether memory is strained. Free pages do not count: they serve any class, or go back. */
static bool mix_is_strained(void)
{
    size_t limit, used, idle;

    if (!sa_limits_active())
        return false;
    limit = sa_min(sa_limits_get(SA_LIMIT_SOFT), sa_limits_get(SA_LIMIT_HARD));
    used = sa_footprint_bytes();
    idle = sa_load_relaxed(&sa_footprint.idle);
    return used - sa_min(used, idle) > limit - limit / STRAIN_FRACTION;
}

/* Begins a window. The clock of a child in another time namespace may be behind: then mosts stay
 * for up to two windows more. */
static void mix_begin_window(uint64_t window)
{
    uint64_t before = sa_load_relaxed(&most.window);

    for (uint64_t w = window; w > before && w + 2 > window; w--) {
        sa_store_relaxed(&most.together[w % 2], 0);
        for (unsigned cls = 0; cls < SA_CLASSES_MAX; cls++)
            sa_store_relaxed(&most.objects[w % 2][cls], 0);
    }
    sa_store_relaxed(&most.window, window);
    sa_store_relaxed(&sa_central_mix_look, SA_MIX_MIN_BYTES);
}

/* Notes that a class has so many objects. Returns the most that it had lately. */
static size_t mix_most(unsigned cls, size_t objects, size_t at)
{
    if (objects > sa_load_relaxed(&most.objects[at][cls]))
        sa_store_relaxed(&most.objects[at][cls], (uint32_t)sa_min(objects, UINT32_MAX));
    return sa_max(sa_load_relaxed(&most.objects[0][cls]), sa_load_relaxed(&most.objects[1][cls]));
}

/* Bytes of the classes that mixed spans serve. */
struct mix_look {
    size_t wasted;   /* free objects of all classes, free runs, and free pages between spans */
    size_t apart;    /* what each class holds or had at most lately, and free runs */
    size_t together; /* the most that they had together lately */
    bool highest;    /* the class that asks has as much as it had at most lately */
};

/* Adds a class that is in use. Returns the bytes that it has. */
static size_t mix_look_at(struct mix_look *look, unsigned cls, bool asks, size_t at)
{
    const struct central *c = &sa_centrals[sa_first_use_index(cls)];
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t free = sa_load_relaxed(&c->free_objects);
    size_t holds = sa_load_relaxed(&c->spans) * k->objects + sa_mixed_objects(cls);
    size_t has = holds - sa_min(holds, free), had;

    look->wasted += free * k->size;
    if (k->size > SA_MIXED_MAX)
        return 0;
    had = mix_most(cls, has, at);
    look->apart += sa_max(holds, had) * k->size;
    look->highest |= asks && has >= had;
    return has * k->size;
}

/* Looks at all classes, and notes what they have. Free pages between spans count no more than what
 * is in use on mixed spans: by themselves, they show no change of sizes, and new spans of classes
 * can use them. Pages of free objects that went back do not count. A hint: no lock is held. */
static void mix_look(unsigned asks, size_t given, struct mix_look *ret)
{
    uint64_t window = sa_clock_coarse_ns() / MOST_NS;
    size_t together = 0, runs = sa_mixed_free_bytes(), at = window % 2;

    *ret = (struct mix_look){.apart = runs};
    if (window != sa_load_relaxed(&most.window))
        mix_begin_window(window);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        if (sa_class_is_used(cls))
            together += mix_look_at(ret, cls, cls == asks, at);
    if (together > sa_load_relaxed(&most.together[at]))
        sa_store_relaxed(&most.together[at], together);
    ret->together = sa_max(sa_load_relaxed(&most.together[0]), sa_load_relaxed(&most.together[1]));
    ret->wasted += runs + sa_min(sa_load_relaxed(&sa_footprint.between), sa_mixed_used_bytes());
    ret->wasted -= sa_min(ret->wasted, (size_t)sa_load_relaxed(&sa_footprint.emptied));
    if ((int64_t)given > sa_load_relaxed(&sa_central_mix_look))
        sa_store_relaxed(&sa_central_mix_look,
                         (int64_t)(given + sa_max(SA_MIX_MIN_BYTES, given / LOOK_FRACTION)));
}

/* The footprint comes before the look at the classes, because it is cheaper. sa_central_mix_may has
 * compared the ordinary page heap's part of it with SA_MIX_MIN_BYTES only. ret_lean: whether the
 * page heap is to keep few free pages, too: not for the sake of one class, which may have as much
 * as ever by chance. */
static bool mix_is_due(unsigned cls, bool strained, bool *ret_lean)
{
    size_t given = sa_in_use_bytes();
    bool much = mix_is_much(sa_footprint_bytes(), given, strained);
    struct mix_look look;

    *ret_lean = true;
    if (SA_UNLIKELY(sa_mixed_use == SA_MIXED_ALWAYS))
        return true;
    if (!much && (int64_t)given <= sa_load_relaxed(&sa_central_mix_look))
        return false;
    mix_look(cls, given, &look);
    *ret_lean = strained || look.apart > look.together + look.together / WASTE_FRACTION;
    return much && mix_is_much(look.wasted + given, given, strained) && (*ret_lean || look.highest);
}

static bool mix_is_short(const struct sa_class *k)
{
    return k->size < sa_vm.page_bytes;
}

static bool mix_is_sparse(unsigned live, const struct sa_class *k, bool strained)
{
    return live * SPARSE_FRACTION <= k->objects ||
           (strained && mix_is_short(k) && live + k->objects / ROOM_FRACTION <= k->objects);
}

/* The most objects in use that a span of a list has (central_list_for). */
static unsigned list_live_max(const struct sa_class *k, unsigned list)
{
    unsigned step = NEW_LIST - list;

    return k->objects <= 16 ? step : (1u << step) - 1;
}

/* Finds the class and the list whose spans have the smallest part in use, among the classes that
 * were not tried. No lock is held, so it is a hint. Returns 0 if no list has sparse spans. */
static unsigned mix_sparsest(const struct mix_tried *tried, bool strained, unsigned *ret_list)
{
    unsigned best = 0;
    double least = 1;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        unsigned filled, list, live;

        if (k->objects == 1 || k->size > SA_MIXED_MAX || !sa_class_is_used(cls) ||
            tried->classes[cls / 64] >> cls % 64 & 1)
            continue;
        filled = sa_load_relaxed(&sa_centrals[sa_first_use_index(cls)].filled) & ~(1u << NEW_LIST);
        if (!filled)
            continue;
        list = sa_log2(filled);
        live = list_live_max(k, list);
        if (!mix_is_sparse(live, k, strained) || (double)live / k->objects >= least)
            continue;
        least = (double)live / k->objects;
        best = cls;
        *ret_list = list;
    }
    return best;
}

/* The reverse of central_leave, if there was no memory for the record. */
static void mix_undo(struct central *c, struct sa_span *s) SA_REQUIRES(SA_RANK_CENTRAL)
{
    c->utilization[central_bucket(central_load(s))]++;
    c->returned--;
    sa_count_add(&c->spans, 1);
    central_count_free(c, (size_t)(s->objects - s->live));
    central_link(c, s, central_list_for(s));
}

/* Whether a span may become mixed. A pinned span serves its class alone. One with pages that went
 * back has been dealt with; but where objects are short, few of its free objects lie on them. */
static bool mix_may(const struct sa_span *s, const struct sa_class *k, bool strained)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    return !s->pins && (!sa_span_is_emptied(s) || (strained && mix_is_short(k))) &&
           mix_is_sparse(s->live, k, strained);
}

/* Makes a mixed span of one of a list. False: there was none to make. */
static bool mix_convert_from(unsigned cls, unsigned list, bool strained)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    struct central *c = &sa_centrals[sa_first_use_index(cls)];
    struct sa_span *empty = NULL, *s;
    uint64_t *bits;
    bool done = false;

    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    s = c->lists[list];
    for (int i = 0; s && !mix_may(s, k, strained); i++)
        s = i < PINNED_TRIES ? s->next : NULL;
    if (s) {
        if (SA_UNLIKELY(sa_span_is_emptied(s)))
            sa_central_forget_emptied(c, s, ~0ull);
        central_leave(c, s, central_load(s));
        bits = s->objects > 64 ? s->more_bits : NULL;
        done = sa_mixed_begin(s, &empty);
        if (!done)
            mix_undo(c, s);
        else if (bits)
            central_keep_bits(c, bits);
    }
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    sa_central_give_back(empty);
    return done;
}

/* Makes a mixed span. False: there was none to make. */
static bool mix_convert(bool strained)
{
    struct mix_tried tried = {{0}};
    unsigned list = 0, cls;

    for (int i = 0; i < CLASS_TRIES && (cls = mix_sparsest(&tried, strained, &list)) != 0; i++) {
        if (mix_convert_from(cls, list, strained))
            return true;
        tried.classes[cls / 64] |= 1ull << cls % 64;
    }
    return false;
}

SA_RARE size_t sa_central_mix(unsigned cls, void **end, size_t n, size_t most_align)
{
    bool strained = mix_is_strained(), lean;
    size_t got;

    if (sa_mixed_use == SA_MIXED_OFF || sa_hardening.on) {
        sa_store_relaxed(&sa_central_mix_look, INT64_MAX);
        return 0;
    }
    if (!mix_is_due(cls, strained, &lean) || sa_size_classes.of[cls].size > SA_MIXED_MAX)
        return 0;
    if (lean)
        sa_store_relaxed(&sa_page_heap_lean_ns, sa_clock_coarse_ns() + SA_LEAN_NS);
    got = sa_mixed_take(cls, end, n, most_align);
    for (int i = 0; !got && i < CONVERT_MAX && mix_convert(strained); i++)
        got = sa_mixed_take(cls, end, n, most_align);
    if (!got && (end[-1] = sa_mixed_fresh(cls)) != NULL)
        got = 1;
    sa_add_relaxed(&sa_central_mix_unshaken, got * sa_size_classes.of[cls].size);
    return got;
}

SA_RARE bool sa_central_mix_shake_is_due(void)
{
    if (sa_load_relaxed(&sa_central_mix_unshaken) < SHAKE_BYTES)
        return false;
    sa_store_relaxed(&sa_central_mix_unshaken, 0);
    sa_add_relaxed(&sa_central_mix_shakes, 1);
    return true;
}

SA_RARE bool sa_central_mix_drain_is_due(size_t bytes)
{
    size_t shakes = sa_load_relaxed(&sa_central_mix_shakes);

    if (shakes < DRAIN_FACTOR * bytes / SHAKE_BYTES + 1)
        return false;
    sa_store_relaxed(&sa_central_mix_shakes, 0);
    return true;
}

SA_RARE bool sa_central_mix_return(unsigned cls, void *block)
{
    struct sa_span *empty = NULL;

    if (sa_size_classes.of[cls].size <= SA_SMALL_MAX || sa_pagemap_class((uintptr_t)block) ||
        !sa_mixed_return(cls, block, &empty))
        return false;
    sa_central_give_back(empty);
    return true;
}
