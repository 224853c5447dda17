/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that are left out; see holes.h. */
#include "tool/leaks/holes.h"

#include <stdlib.h>
#include <string.h>

#define HOLES_FIRST 64

bool sa_holes_add(struct sa_holes *h, uint64_t start, uint64_t end)
{
    if (start >= end)
        return true;
    if (h->count == h->cap) {
        size_t cap = h->cap ? 2 * h->cap : HOLES_FIRST;
        void *more = realloc(h->holes, cap * sizeof(*h->holes));

        if (!more)
            return false;
        h->holes = more;
        h->cap = cap;
    }
    h->holes[h->count++] = (struct sa_hole){start, end};
    return true;
}

static int hole_order(const void *a, const void *b)
{
    const struct sa_hole *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

void sa_holes_sort(struct sa_holes *h)
{
    size_t kept = 0;

    if (h->count)
        qsort(h->holes, h->count, sizeof(*h->holes), hole_order);
    for (size_t i = 0; i < h->count; i++) {
        struct sa_hole *last = kept ? &h->holes[kept - 1] : NULL;

        if (last && h->holes[i].start <= last->end)
            last->end = last->end > h->holes[i].end ? last->end : h->holes[i].end;
        else
            h->holes[kept++] = h->holes[i];
    }
    h->count = kept;
}

const struct sa_hole *sa_holes_find(const struct sa_holes *h, uint64_t at, uint64_t end)
{
    size_t low = 0, high = h->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (h->holes[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < h->count && h->holes[low].start < end ? &h->holes[low] : NULL;
}

void sa_holes_free(struct sa_holes *h)
{
    free(h->holes);
    memset(h, 0, sizeof(*h));
}
