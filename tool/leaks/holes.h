/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses that are to be left out. */
#ifndef SA_TOOL_LEAKS_HOLES_H
#define SA_TOOL_LEAKS_HOLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_hole {
    uint64_t start, end;
};

struct sa_holes {
    struct sa_hole *holes;
    size_t count, cap;
};

/* False: no memory. */
bool sa_holes_add(struct sa_holes *h, uint64_t start, uint64_t end);

/* Ends the adding: they are then in order and do not overlap. */
void sa_holes_sort(struct sa_holes *h);

/* The hole with an address, or else the first one behind it; NULL: none before an end. Requires
 * that they are sorted. */
const struct sa_hole *sa_holes_find(const struct sa_holes *h, uint64_t at, uint64_t end);

void sa_holes_free(struct sa_holes *h);

#endif
