/* SPDX-License-Identifier: Apache-2.0 */
/* A set of pages of 4 KiB: those in which records of the library lie. */
#ifndef SA_TOOL_HEAP_PAGE_SET_H
#define SA_TOOL_HEAP_PAGE_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_page_set {
    uint64_t *pages; /* their numbers */
    size_t count, cap;
};

/* Adds the page of an address, unless that is 0. False: no memory. */
bool sa_page_set_add(struct sa_page_set *set, uint64_t address);

/* Ends the adding. */
void sa_page_set_sort(struct sa_page_set *set);

/* Whether any page is in a range, at least in part. Requires that the set is sorted. */
bool sa_page_set_meets(const struct sa_page_set *set, uint64_t start, uint64_t end);

void sa_page_set_free(struct sa_page_set *set);

#endif
