/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts an array in place, without memory of its own. libc's qsort may allocate. The order of equal
 * elements is not kept. No state. */
#ifndef SA_BASE_SORT_H
#define SA_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>

#define SA_SORT_ITEM_MAX 256 /* maximum bytes of an element */

/* Sorts the array so that no element is `before` an earlier one. `before` is a strict weak
 * order. */
void sa_sort(void *items, size_t count, size_t item_bytes,
             bool (*before)(const void *a, const void *b));

#endif
