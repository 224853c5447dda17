/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking the page heap's invariants from outside. The program is linked with --wrap for sa_vm_map
 * and sa_vm_unmap, so that the address space that the heap holds is known; spans, found through the
 * map (P2), must tile it exactly, and their sums must be what the statistics say (P1). On the way no
 * two free neighbours of a state may be apart (P3), and no free span may cross a window boundary
 * (P4).
 */
#ifndef SA_TEST_PAGE_HEAP_WALK_H
#define SA_TEST_PAGE_HEAP_WALK_H

#include "pagemap/span.h"

/* Asserts P1 to P4. No other thread may use the heap. */
void page_heap_check(void);

/* Whether the span's memory is all zero. */
bool page_heap_is_zero(const struct sa_span *span);

/* Contiguous ranges of address space that the heap holds. */
size_t page_heap_ranges(void);

#endif
