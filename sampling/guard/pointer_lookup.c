/* SPDX-License-Identifier: Apache-2.0 */
/* Lookups of addresses in inaccessible pages of large blocks; see pointer_lookup.h. */
#include "sampling/guard/pointer_lookup.h"

#include "alloc/base/hardening.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/guard/guarded.h"
#include "sampling/record/recording.h"

uint32_t sa_large_guards;

bool sa_lookup_sample(const struct sa_span *span, struct sa_lookup *ret)
{
    const struct sa_sample *s;

    if (sa_guarded_span(span))
        return sa_guarded_find(sa_guarded_start(span), ret);
    s = sa_load_relaxed(&span->state) == SA_SPAN_LARGE ? sa_load_relaxed(&span->sample) : NULL;
    if (!s)
        return false;
    *ret = (struct sa_lookup){.state = SA_LOOKUP_LIVE};
    ret->history.start = span->start;
    ret->history.requested = span->requested;
    ret->history.allocated = (struct sa_event){s->stack, s->time_ns, s->tid};
    return true;
}

/* For an address between the block of `before` and the next one: the span of the nearer block. */
static const struct sa_span *nearer(const struct sa_span *before, uintptr_t address)
{
    const struct sa_span *next = sa_pagemap_find(sa_span_end(before));

    return next && sa_load_relaxed(&next->state) == SA_SPAN_LARGE &&
                   next->start - address <= address - before->start - before->requested
               ? next
               : before;
}

/* Describes the block of a span: with its history if it is sampled, else by its place. */
static void describe(const struct sa_span *s, struct sa_lookup *ret)
{
    if (sa_lookup_sample(s, ret))
        return;
    *ret = (struct sa_lookup){.state = SA_LOOKUP_LIVE};
    ret->history.start = s->start;
    ret->history.requested = s->requested;
}

void sa_lookup_nearer(uintptr_t address, struct sa_lookup *found)
{
    const struct sa_span *s = sa_pagemap_find_around(address), *next;

    if (!s || found->state != SA_LOOKUP_FREED || s->start != found->history.start ||
        address - s->start < found->history.requested || s->heap != SA_HEAP_ORDINARY)
        return;
    next = sa_pagemap_find(sa_span_end(s));
    if (!next || sa_load_relaxed(&next->state) != SA_SPAN_LARGE ||
        next->start - address > address - s->start - found->history.requested)
        return;
    describe(next, found);
    found->between = true;
}

bool sa_lookup_large(uintptr_t address, struct sa_lookup *ret)
{
    const struct sa_span *s = NULL;
    uint8_t state;

    /* Without such pages, faults must pass quickly: some programs use them all the time. */
    if (sa_load_relaxed(&sa_large_guards) || sa_hardening.guards || sa_hardening.quarantine_bytes)
        s = sa_pagemap_find_around(address);
    state = s ? sa_load_relaxed(&s->state) : SA_SPAN_UNUSED;
    /* Of a block that is put aside, `requested` is a pointer to the next one, or 0. */
    if (!s || s->heap != SA_HEAP_ORDINARY || s->requested - 1 >= sa_span_bytes(s))
        return false;
    if (state == SA_SPAN_QUARANTINED) {
        describe(s, ret);
        ret->state = SA_LOOKUP_FREED;
        sa_lookup_nearer(address, ret);
        return true;
    }
    if (state != SA_SPAN_LARGE || sa_span_end(s) - address > (size_t)s->guard << SA_PAGE_SHIFT)
        return false;
    describe(nearer(s, address), ret);
    ret->between = true;
    return true;
}
