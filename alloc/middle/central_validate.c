/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the central free lists; central_spans.h has the invariants. */
#include "alloc/base/fatal.h"
#include "alloc/base/first_use_index.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_spans.h"
#include "pagemap/pagemap.h"

/* What the spans of the lists add up to. */
struct tally {
    size_t free_objects, spans;
    uint32_t utilization[SA_CENTRAL_BUCKETS];
};

static size_t free_bits(const struct sa_span *s)
{
    const uint64_t *bits = s->objects <= 64 ? &s->bits : s->more_bits;
    size_t n = 0;

    for (size_t w = 0; w < (s->objects + 63u) / 64; w++)
        n += (size_t)__builtin_popcountll(bits[w]);
    return n;
}

static void check_span(const struct sa_span *s, unsigned cls, unsigned list, struct tally *tally)
    SA_REQUIRES(SA_RANK_CENTRAL)
{
    SA_CHECK(s->list == list && s->cls == cls);
    SA_CHECK(s->objects == sa_size_classes.of[cls].objects && s->live < s->objects);
    SA_CHECK((central_load(s) == 0) == (list == NEW_LIST));
    SA_CHECK(s->state == (list == NEW_LIST ? SA_SPAN_MOVING : SA_SPAN_OBJECTS));
    SA_CHECK(free_bits(s) == (size_t)(s->objects - s->live));
    SA_CHECK(sa_pagemap_span(s->start) == s);
    tally->free_objects += s->objects - s->live;
    tally->spans++;
    tally->utilization[central_bucket(central_load(s))]++;
}

/* Checks C1, C2 and C3 for a class. */
static void central_check(const struct central *c, unsigned cls) SA_REQUIRES(SA_RANK_CENTRAL)
{
    struct tally tally = {0};
    size_t all = 0;

    for (unsigned list = 0; list < LISTS; list++) {
        const struct sa_span *before = NULL;

        SA_CHECK((c->filled >> list & 1) == (c->lists[list] != NULL));
        for (const struct sa_span *s = c->lists[list]; s; before = s, s = s->next) {
            SA_CHECK(s->prev == before);
            check_span(s, cls, list, &tally);
        }
    }
    SA_CHECK(c->free_objects == tally.free_objects);
    for (unsigned i = 0; i < SA_CENTRAL_BUCKETS; i++) { /* full spans are in no list */
        SA_CHECK(c->utilization[i] >= tally.utilization[i]);
        all += c->utilization[i];
    }
    SA_CHECK(c->utilization[0] == tally.utilization[0]);
    SA_CHECK(c->spans == all && c->spans >= tally.spans);
    SA_CHECK(c->requested - c->returned == c->spans);
}

void sa_central_validate(void)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct central *c;

        if (!sa_class_is_used(cls))
            continue;
        c = &sa_centrals[sa_first_use_index(cls)];
        sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
        central_check(c, cls);
        sa_lock_release(&c->lock, SA_RANK_CENTRAL);
    }
}
