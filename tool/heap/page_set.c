/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of pages; see page_set.h. */
#include "tool/heap/page_set.h"

#include "tool/base/array.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_PAGE 4096

static int page_order(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

bool sa_page_set_add(struct sa_page_set *set, uint64_t address)
{
    uint64_t page = address / RECORD_PAGE;

    if (!address || (set->count && set->pages[set->count - 1] == page))
        return true;
    if (set->count == set->cap && set->cap) { /* most are there already */
        sa_page_set_sort(set);
        if (set->count > set->cap / 2 &&
            !sa_array_room(&set->pages, &set->cap, set->cap + 1, sizeof(*set->pages), 1024))
            return false;
    } else if (!sa_array_room(&set->pages, &set->cap, set->count + 1, sizeof(*set->pages), 1024))
        return false;
    set->pages[set->count++] = page;
    return true;
}

void sa_page_set_sort(struct sa_page_set *set)
{
    size_t kept = 0;

    if (set->count)
        qsort(set->pages, set->count, sizeof(*set->pages), page_order);
    for (size_t i = 0; i < set->count; i++)
        if (!kept || set->pages[kept - 1] != set->pages[i])
            set->pages[kept++] = set->pages[i];
    set->count = kept;
}

bool sa_page_set_meets(const struct sa_page_set *set, uint64_t start, uint64_t end)
{
    size_t low = 0, high = set->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (set->pages[middle] < start / RECORD_PAGE)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->pages[low] * RECORD_PAGE < end;
}

void sa_page_set_free(struct sa_page_set *set)
{
    free(set->pages);
    memset(set, 0, sizeof(*set));
}
