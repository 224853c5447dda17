/* SPDX-License-Identifier: Apache-2.0 */
/* Where the library's records lie that the radix map does not lead to: those that are not in use.
 * They still have the addresses that they had. */
#ifndef SA_TOOL_HEAP_RECORDS_H
#define SA_TOOL_HEAP_RECORDS_H

#include "tool/heap/heap.h"

/* Adds their pages to those of the heap. */
bool sa_records_read(struct sa_heap *h, const struct sa_table *table, struct sa_error *e);

#endif
