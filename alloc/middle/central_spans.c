/* SPDX-License-Identifier: Apache-2.0 */
/* The spans of all classes, and what is counted of them; see central_spans.h. */
#include "alloc/middle/central_spans.h"

#include "alloc/base/first_use_index.h"
#include "alloc/base/layout.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"

SA_LAYOUT_USED struct central sa_centrals[SA_CLASSES_MAX]; /* by sa_first_use_index */

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ARRAY("sa_centrals", sa_centrals),
    SA_LAYOUT_STATE_EACH("sa_centrals", sa_centrals, free_objects),
    SA_LAYOUT_STATE_EACH("sa_centrals", sa_centrals, spans),
    SA_LAYOUT_STATE_EACH("sa_centrals", sa_centrals, emptied_bytes),
    SA_LAYOUT_STATE_EACH("sa_centrals", sa_centrals, requested),
    SA_LAYOUT_STATE_EACH("sa_centrals", sa_centrals, returned),
    SA_LAYOUT_STATE_EACH("sa_centrals", sa_centrals, utilization),
};
SA_LAYOUT_ADDRESS(sa_centrals);

void sa_central_give_back(struct sa_span *s)
{
    while (s) {
        struct sa_span *next = s->next;

        sa_pagemap_clear_classes(s);
        sa_page_heap_free(&sa_page_heap_ordinary, s, s->zeroed);
        s = next;
    }
}

SA_RARE void sa_central_stats(unsigned cls, struct sa_central_stats *ret)
{
    struct central *c;

    *ret = (struct sa_central_stats){.mixed_objects = sa_mixed_objects(cls)};
    if (!sa_class_is_used(cls))
        return;
    c = &sa_centrals[sa_first_use_index(cls)];
    sa_lock_acquire(&c->lock, SA_RANK_CENTRAL);
    ret->free_objects = c->free_objects;
    ret->spans = c->spans;
    ret->pages = c->spans * sa_size_classes.of[cls].pages;
    ret->emptied_bytes = c->emptied_bytes;
    ret->spans_requested = c->requested;
    ret->spans_returned = c->returned;
    for (unsigned i = 0; i < SA_CENTRAL_BUCKETS; i++)
        ret->utilization[i] = c->utilization[i];
    sa_lock_release(&c->lock, SA_RANK_CENTRAL);
}

SA_RARE size_t sa_central_excess_bytes(unsigned cls, const struct sa_central_stats *stats)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    size_t of_new = sa_min(stats->utilization[0] * k->objects, stats->free_objects);

    return (stats->free_objects - of_new) / k->objects * ((size_t)k->pages << SA_PAGE_SHIFT);
}
