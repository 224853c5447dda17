/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both page heaps do with span records: take one, return one, and turn one into a span in
 * use. Unused records are linked by next. The heap's lock guards the list and the count.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_SPAN_RECORDS_H
#define SA_PAGE_HEAP_ACCOUNT_SPAN_RECORDS_H

#include "alloc/base/fatal.h"
#include "pagemap/arena.h"
#include "pagemap/pagemap.h"

/* A record, or NULL when out of memory. number: the heap that the record belongs to; created:
 * counts the records ever made. */
static inline struct sa_span *sa_span_record_new(struct sa_span **unused, uint8_t number,
                                                 size_t *created)
{
    struct sa_span *s = *unused;

    if (s) {
        *unused = s->next;
    } else {
        s = sa_arena_alloc(sizeof(*s), 8);
        if (!s)
            return NULL;
        (*created)++;
        s->heap = number;
    }
    return s;
}

static inline void sa_span_record_drop(struct sa_span **unused, struct sa_span *s)
{
    sa_store_relaxed(&s->state, SA_SPAN_UNUSED);
    s->next = *unused;
    *unused = s;
}

/* Notes that the pages of a span in use are unbacked from now on (emptied), or that the span is
 * freed. *pages counts the pages of emptied spans. False: nothing has changed. Lock held. */
static inline bool sa_span_emptied(struct sa_span *s, bool emptied, size_t *pages)
{
    if (SA_LIKELY((s->list == SA_SPAN_EMPTIED) == emptied))
        return false;
    SA_DCHECK(emptied || *pages >= s->pages);
    s->list = emptied ? SA_SPAN_EMPTIED : 0;
    *pages += emptied ? s->pages : -(size_t)s->pages;
    return true;
}

/* Turns a record whose start and length are set into a span in use. All other fields begin anew.
 * The radix map has the span already. */
static inline void sa_span_begin_mapped(struct sa_span *s, bool zeroed)
{
    SA_DCHECK(s->pages > 0 && s->start % SA_PAGE_BYTES == 0);
    s->zeroed = zeroed;
    s->moved = 0;
    sa_store_relaxed(&s->cls, 0); /* stale pointers: central_owns */
    s->list = 0;
    s->requested = 0;
    sa_store_relaxed(&s->sample, NULL);
    s->origin = 0;
    sa_store_relaxed(&s->state, SA_SPAN_LARGE);
}

/* The same for a span that the radix map does not have. */
static inline void sa_span_begin(struct sa_span *s, bool zeroed)
{
    sa_span_begin_mapped(s, zeroed);
    sa_pagemap_set_ends(s);
}

#endif
