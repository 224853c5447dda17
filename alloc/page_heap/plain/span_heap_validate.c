/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the invariants of the plain page heap, P1 to P4 of span_heap.c, and its lists of free
 * spans. Debug builds run it at ticks, with the lock held.
 */
#include "alloc/base/fatal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/plain/span_heap.h"
#include "pagemap/pagemap.h"

/* P3: the free spans on both sides have another state, or lie beyond a window boundary. */
static void neighbours_validate(const struct sa_span_heap *h, const struct sa_span *s)
{
    const struct sa_span *prev = sa_pagemap_span(s->start - 1);
    const struct sa_span *next = sa_pagemap_span(sa_span_end(s));

    SA_CHECK(!prev || sa_load_relaxed(&prev->state) != s->state || prev->heap != h->number ||
             sa_span_end(prev) != s->start || !sa_same_window(prev->start, s->start));
    SA_CHECK(!next || sa_load_relaxed(&next->state) != s->state || next->heap != h->number ||
             next->start != sa_span_end(s) || !sa_same_window(next->start, s->start));
}

static void list_validate(const struct sa_span_heap *h, const struct sa_span *first,
                          enum sa_span_state state, unsigned index, size_t *pages)
{
    const struct sa_span *prev = NULL;

    for (const struct sa_span *s = first; s; prev = s, s = s->next) {
        SA_CHECK(s->prev == prev);
        SA_CHECK(s->state == state);
        SA_CHECK(s->heap == h->number);
        SA_CHECK(s->pages > 0);
        SA_CHECK(sa_free_list_index(s->pages) == index);
        SA_CHECK(sa_pagemap_span(s->start) == s);               /* P2 */
        SA_CHECK(sa_pagemap_span(sa_span_end(s) - 1) == s);     /* P2 */
        SA_CHECK(sa_same_window(s->start, sa_span_end(s) - 1)); /* P4 */
        neighbours_validate(h, s);
        *pages += s->pages;
    }
}

static void lists_validate(const struct sa_span_heap *h, const struct sa_free_lists *lists,
                           enum sa_span_state state)
{
    size_t pages = 0;

    for (unsigned i = 0; i < SA_FREE_LISTS; i++) {
        SA_CHECK((lists->filled[i / 64] >> i % 64 & 1) == (lists->first[i] != NULL));
        list_validate(h, lists->first[i], state, i, &pages);
    }
    SA_CHECK(lists->pages == pages);
}

static void recent_validate(const struct sa_span_heap *h, const struct sa_span *s)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    SA_CHECK(s->state == SA_SPAN_MOVING);
    SA_CHECK(s->pages > 0 && s->pages <= SA_SPAN_HEAP_RECENT_MAX);
    SA_CHECK(h->moving_pages >= s->pages);
    SA_CHECK(sa_pagemap_span(s->start) == s);               /* P2 */
    SA_CHECK(sa_pagemap_span(sa_span_end(s) - 1) == s);     /* P2 */
    SA_CHECK(sa_same_window(s->start, sa_span_end(s) - 1)); /* P4 */
}

void sa_span_heap_validate(struct sa_span_heap *h)
{
    if (h->recent)
        recent_validate(h, h->recent);
    lists_validate(h, &h->backed, SA_SPAN_BACKED);
    lists_validate(h, &h->released, SA_SPAN_RELEASED);
    SA_CHECK(h->mapped_pages ==
             h->in_use_pages + h->backed.pages + h->released.pages + h->moving_pages); /* P1 */
    SA_CHECK(h->empty_pages <= h->in_use_pages);
    sa_size_info_validate(&h->sizes, h->stats.spans_in_use, h->in_use_pages);
    sa_limits_validate(h->number, sa_span_heap_used_bytes(h));
}
