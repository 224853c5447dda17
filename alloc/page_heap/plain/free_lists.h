/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free spans of one state, found by length: a list for each length below 128 pages, then eight
 * lists to each doubling. No lock of its own; the page heap's guards it.
 */
#ifndef SA_PAGE_HEAP_PLAIN_FREE_LISTS_H
#define SA_PAGE_HEAP_PLAIN_FREE_LISTS_H

#include "pagemap/span.h"

#define SA_FREE_LISTS      384
#define SA_FREE_LIST_EXACT 128 /* spans below this length have a list of their own */

/* A walk over all spans, under the lock but for pauses between its steps. */
struct sa_free_walk {
    struct sa_span *at;         /* next to be visited; NULL: the end of its list */
    unsigned list;              /* which that is */
    struct sa_free_walk *other; /* of the same lists */
};

struct sa_free_lists {
    size_t pages;
    struct sa_free_walk *walks;          /* under way */
    uint64_t filled[SA_FREE_LISTS / 64]; /* bit set = list not empty */
    struct sa_span *first[SA_FREE_LISTS];
};

void sa_free_lists_add(struct sa_free_lists *lists, struct sa_span *span);
void sa_free_lists_remove(struct sa_free_lists *lists, struct sa_span *span);

/* A shortest span (up to the width of a list) that holds pages aligned as asked; not removed. */
struct sa_span *sa_free_lists_find(const struct sa_free_lists *lists, size_t pages, size_t align);

/* One of the longest spans, or NULL. */
struct sa_span *sa_free_lists_longest(const struct sa_free_lists *lists);

/*
 * Visits spans one after the other, from the lists of shorter ones to those of longer. Who stays in
 * the lists from the begin to the end of the walk is visited once, others perhaps. The walk belongs
 * to the caller until its end.
 */
void sa_free_lists_begin(struct sa_free_lists *lists, struct sa_free_walk *walk);
struct sa_span *sa_free_lists_step(const struct sa_free_lists *lists, struct sa_free_walk *walk);
void sa_free_lists_end(struct sa_free_lists *lists, struct sa_free_walk *walk);

#endif
