/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap inspection; see inspect.h. Other threads allocate and free meanwhile, so that a single read
 * proves nothing:
 *
 * Spans. A span that is pinned stays a span of its class, so that its memory can be read. Large
 * spans cannot be pinned: they are inspected only in a process of one thread.
 *
 * Blocks in use. The slack is filled before the canary is written, and a free changes the canary
 * before anything else. So while the canary stays the same, the slack is intact. Damage counts only
 * if it is found, under the same canary, at each of CONFIRM looks. One case remains: a block that
 * realloc changes in place, to and fro, may have the same canary at every look.
 *
 * Free objects. The junk is written after the canary, so the canary alone does not tell that the
 * junk is complete. It is complete in objects in the quarantine, which are inspected under its
 * lock. It is also complete in objects that are free in their span's bitmap, as long as they are:
 * each look reads the bit again, and an object can become free again only by way of the quarantine.
 *
 * The position of the next pass is guarded by the lock MAINTAIN. The counters of an inspection at
 * exit are local.
 */
#include "alloc/hardening/inspect.h"

#include "alloc/base/fatal.h"
#include "alloc/base/single_threaded.h"
#include "alloc/base/size_class.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/hardening/hardened.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/os/clock.h"
#include "alloc/os/cpu_relax.h"
#include "alloc/os/lock.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/guarded.h"

#define SOME_NS     500000    /* time of a maintenance pass, of which there are two a second */
#define ALL_NS      250000000 /* time at exit */
#define CONFIRM     64        /* looks that must find the same damage */
#define RELAX       32        /* pauses between two looks: some microseconds */
#define QUARANTINED 4096      /* objects of the quarantine in a pass */

/* Where the next maintenance pass continues. */
static struct {
    uintptr_t at SA_GUARDED_BY(SA_RANK_MAINTAIN);
    size_t in_quarantine SA_GUARDED_BY(SA_RANK_MAINTAIN);
} inspection;

/* An object to look at. */
struct look {
    const struct sa_span *span;
    const void *object;
    unsigned cls;
    size_t index;
    bool single_threaded; /* the process has one thread */
};

/* True if the object is free in its span's bitmap. */
static bool is_free(const struct look *l)
{
    const struct sa_span *s = l->span;
    const uint64_t *bits = s->objects <= 64 ? &s->bits : s->more_bits;

    return (sa_load_relaxed(&bits[l->index / 64]) >> l->index % 64 & 1) != 0;
}

/* Looks for damage of an object. Returns the byte that was written, or NULL, and the canary's kind
 * and size. */
static const void *look_once(const struct look *l, enum sa_canary *ret_canary, size_t *ret_size)
{
    bool whole = l->single_threaded || is_free(l);

    *ret_canary = sa_canary_read(l->object, sa_size_classes.of[l->cls].size, ret_size);
    switch (*ret_canary) {
    case SA_CANARY_USED:
        return sa_hardened_slack_damage(l->object, l->cls, *ret_size);
    case SA_CANARY_FREE:
        return whole ? sa_hardened_junk_damage(l->object, l->cls) : NULL;
    case SA_CANARY_BROKEN:
        return l->object;
    default:
        return NULL;
    }
}

/* Reports damage, and ends the program, if each of CONFIRM further looks finds the same. */
SA_COLD static void confirm(const struct look *l, enum sa_canary canary, size_t size,
                            const void *where)
{
    enum sa_canary now;
    size_t is = size;

    for (int i = 0; i < CONFIRM; i++) {
        for (int k = 0; k < RELAX; k++)
            sa_cpu_relax();
        if (look_once(l, &now, &is) != where || now != canary || is != size)
            return;
    }
    if (canary == SA_CANARY_FREE)
        sa_hardened_say_written(l->object, l->cls, where);
    if (canary == SA_CANARY_USED)
        sa_hardened_size(l->object, l->cls, "heap buffer overflow");
    else
        sa_hardened_say_broken(l->object, l->cls);
}

static void inspect_object(const struct look *l)
{
    enum sa_canary canary;
    size_t size = 0;
    const void *where = look_once(l, &canary, &size);

    if (SA_UNLIKELY(where != NULL))
        confirm(l, canary, size, where);
}

static void inspect_objects(struct sa_span *s, uintptr_t start, bool single_threaded)
{
    unsigned cls = sa_pagemap_class(start);
    const struct sa_class *k = &sa_size_classes.of[cls];

    if (!cls || !sa_central_pin(cls, (void *)start, true))
        return;
    s = sa_pagemap_span(start); /* the span may have been replaced before it was pinned */
    for (size_t i = 0; i < k->objects; i++)
        inspect_object(&(struct look){s, (char *)start + i * k->size, cls, i, single_threaded});
    sa_central_pin(cls, (void *)start, false);
}

static void inspect_span(struct sa_span *s, uintptr_t start) SA_INSIDE_GATE
{
    bool single_threaded = sa_single_threaded();

    SA_DCHECK(sa_thread.gate_depth);
    switch (sa_load_relaxed(&s->state)) {
    case SA_SPAN_OBJECTS:
        inspect_objects(s, start, single_threaded);
        break;
    case SA_SPAN_LARGE:
        if (single_threaded && s->heap == SA_HEAP_ORDINARY)
            sa_hardened_check_large((void *)start, s->requested, sa_span_usable_bytes(s));
        break;
    default:
        break;
    }
}

/* Inspects spans from *at on. False: the time is over, and *at is where to continue. */
static bool inspect_spans(uintptr_t *at, uint64_t until_ns) SA_INSIDE_GATE
{
    struct sa_span *s;

    while ((s = sa_pagemap_next(at))) {
        inspect_span(s, *at - SA_PAGE_BYTES);
        if (sa_clock_ns() >= until_ns)
            return false;
    }
    *at = 0;
    return true;
}

static bool junk_damaged(struct sa_quarantined b)
{
    return sa_hardened_junk_damage(b.block, b.cls) != NULL;
}

/* Checks the junk of up to n objects in the quarantine, from position *at on. */
static void inspect_quarantine(size_t *at, size_t n) SA_INSIDE_GATE
{
    struct sa_quarantined b;

    SA_DCHECK(sa_thread.gate_depth);
    if (!sa_hardening.junk_freed || !sa_quarantine_find(junk_damaged, at, n, &b))
        return;
    sa_hardened_say_written(b.block, b.cls, sa_hardened_junk_damage(b.block, b.cls));
}

void sa_inspect_some(void)
{
    SA_DCHECK(sa_thread.gate_depth);
    /* The interrupted slow path may have left an object half changed. */
    if (!sa_hardening.inspect || sa_thread.gate_depth > 1)
        return;
    sa_guarded_inspect();
    if (!sa_hardening.canaries)
        return;
    inspect_quarantine(&inspection.in_quarantine, QUARANTINED);
    inspect_spans(&inspection.at, sa_clock_ns() + SOME_NS);
}

static void inspect_heap(uint64_t until_ns) SA_INSIDE_GATE
{
    uintptr_t from = 0;
    size_t at = 0;

    do
        inspect_quarantine(&at, QUARANTINED);
    while (at && sa_clock_ns() < until_ns);
    inspect_spans(&from, until_ns);
}

void sa_inspect_all(void)
{
    /* A signal handler has called exit: the interrupted slow path may have left an object half
     * changed. */
    if (!sa_hardening.inspect || sa_thread.gate_depth || !sa_fork_gate_enter())
        return;
    sa_guarded_inspect();
    if (sa_hardening.canaries)
        inspect_heap(sa_clock_ns() + ALL_NS);
    sa_fork_gate_leave();
}
