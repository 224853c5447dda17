/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free spans of one state, found by length: a list for each length below 128 pages, then eight
 * lists to each doubling. No lock of its own; the page heap's guards it.
 */
#ifndef SA_PAGE_HEAP_FREE_LISTS_H
#define SA_PAGE_HEAP_FREE_LISTS_H

#include "pagemap/span.h"

#define SA_FREE_LISTS      384
#define SA_FREE_LIST_EXACT 128 /* spans below this length have a list of their own */

struct sa_free_lists {
    struct sa_span *first[SA_FREE_LISTS];
    uint64_t filled[SA_FREE_LISTS / 64]; /* bit set = list not empty */
    size_t pages;
};

void sa_free_lists_add(struct sa_free_lists *lists, struct sa_span *span);
void sa_free_lists_remove(struct sa_free_lists *lists, struct sa_span *span);

/* A shortest span (up to the width of a list) that holds pages aligned as asked; not removed. */
struct sa_span *sa_free_lists_find(const struct sa_free_lists *lists, size_t pages, size_t align);

/* One of the longest spans, or NULL. */
struct sa_span *sa_free_lists_longest(const struct sa_free_lists *lists);

#endif
