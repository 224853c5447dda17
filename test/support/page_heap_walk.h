/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the ordinary page heap: its own invariants (sa_huge_heap_validate), and from outside that
 * they are about all address space that it holds. The program is linked with --wrap for
 * sa_vm_map_space and sa_vm_unmap_space, so that this space is known. Every hugepage of it is in
 * exactly one place, the spans found through the map fill what is taken, and the sums are those of
 * the statistics.
 */
#ifndef TEST_SUPPORT_PAGE_HEAP_WALK_H
#define TEST_SUPPORT_PAGE_HEAP_WALK_H

#include "pagemap/span.h"

/* Asserts all that. No other thread may use the heap. */
void page_heap_check(void);

/* Address space that the heap got or lost: for a test that has a system of its own
 * (PAGE_HEAP_FAKE). */
void page_heap_mapped(void *p, size_t bytes);
void page_heap_unmapped(void *p, size_t bytes);

/* Every range of what the heap holds; and forgets them all, for a heap that begins anew. */
void page_heap_each_range(void (*visit)(uintptr_t start, uintptr_t end));
void page_heap_forget(void);

/* Whether the span's memory is all zero. */
bool page_heap_is_zero(const struct sa_span *span);

/* Contiguous ranges of address space that the heap holds. */
size_t page_heap_ranges(void);

#endif
