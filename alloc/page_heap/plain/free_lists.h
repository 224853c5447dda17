/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free spans of one state, found by length: one list for each length below SA_FREE_LIST_EXACT
 * pages, then eight lists for each doubling. No lock of its own; the page heap's lock guards it.
 */
#ifndef SA_PAGE_HEAP_PLAIN_FREE_LISTS_H
#define SA_PAGE_HEAP_PLAIN_FREE_LISTS_H

#include "pagemap/span.h"

#define SA_FREE_LISTS      384
#define SA_FREE_LIST_EXACT 128 /* spans below this length have a list of their own */

/* A walk over all spans. The lock is held at each step and may be dropped between steps. */
struct sa_free_walk {
    struct sa_span *at;         /* the next span; NULL: the end of its list */
    unsigned list;              /* the number of that list */
    struct sa_free_walk *other; /* another walk over the same lists */
};

struct sa_free_lists {
    size_t pages;
    struct sa_free_walk *walks;          /* begun and not ended */
    uint64_t filled[SA_FREE_LISTS / 64]; /* bit set = list not empty */
    struct sa_span *first[SA_FREE_LISTS];
};

/* The list for a length. */
unsigned sa_free_list_index(size_t pages);

void sa_free_lists_add(struct sa_free_lists *lists, struct sa_span *span);
void sa_free_lists_remove(struct sa_free_lists *lists, struct sa_span *span);

/* One of the shortest spans (up to the width of a list) that hold `pages` at this alignment. The
 * span stays in its list. */
struct sa_span *sa_free_lists_find(const struct sa_free_lists *lists, size_t pages, size_t align);

/* One of the longest spans, or NULL. */
struct sa_span *sa_free_lists_longest(const struct sa_free_lists *lists);

/*
 * Visits spans one after the other, from the lists of short spans to those of long ones. A span
 * that stays in the lists from the begin to the end of the walk is visited once; others may be
 * missed. The walk belongs to the caller until its end.
 */
void sa_free_lists_begin(struct sa_free_lists *lists, struct sa_free_walk *walk);
struct sa_span *sa_free_lists_step(const struct sa_free_lists *lists, struct sa_free_walk *walk);
void sa_free_lists_end(struct sa_free_lists *lists, struct sa_free_walk *walk);

#endif
