/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting in place, without memory of its own (libc's qsort may allocate). Not stable. */
#ifndef SA_BASE_SORT_H
#define SA_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>

#define SA_SORT_ITEM_MAX 256 /* bytes of an element */

/* Elements that are `before` others come first. before must be a strict weak order. */
void sa_sort(void *items, size_t count, size_t item_bytes,
             bool (*before)(const void *a, const void *b));

#endif
