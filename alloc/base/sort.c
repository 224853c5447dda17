/* SPDX-License-Identifier: Apache-2.0 */
/* Heap sort; see sort.h. It takes O(n log n) steps for any input. No state but the stack. */
#include "alloc/base/sort.h"

#include "alloc/base/fatal.h"

#include <string.h>

/* Fills the hole at index `at` of a heap with `item`: moves children up until none of them belongs
 * above the item. */
static void sift(char *items, size_t count, size_t bytes, size_t at, const char *item,
                 bool (*before)(const void *, const void *))
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= count)
            break;
        if (child + 1 < count && before(items + child * bytes, items + (child + 1) * bytes))
            child++;
        if (!before(item, items + child * bytes))
            break;
        memcpy(items + at * bytes, items + child * bytes, bytes);
        at = child;
    }
    memcpy(items + at * bytes, item, bytes);
}

void sa_sort(void *array, size_t count, size_t bytes, bool (*before)(const void *, const void *))
{
    char *items = array;
    char item[SA_SORT_ITEM_MAX] __attribute__((aligned(16)));

    SA_CHECK(bytes <= sizeof(item));
    for (size_t i = count / 2; i-- > 0;) {
        memcpy(item, items + i * bytes, bytes);
        sift(items, count, bytes, i, item, before);
    }
    while (count-- > 1) { /* the greatest element goes to the end */
        memcpy(item, items + count * bytes, bytes);
        memcpy(items + count * bytes, items, bytes);
        sift(items, count, bytes, 0, item, before);
    }
}
