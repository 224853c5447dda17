/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many spans of the ordinary heap, in two arrays, on the fake system (huge_program.h), and what the
 * heap has and has released. Time is the test's.
 */
#ifndef TEST_SUPPORT_HEAP_SPANS_H
#define TEST_SUPPORT_HEAP_SPANS_H

#include "alloc/page_heap/page_heap.h"
#include "test/support/huge_program.h"

#define HEAP      (&sa_page_heap_ordinary)
#define MIB       (1ul << 20)
#define PAGES_MIB (MIB >> SA_PAGE_SHIFT)
#define TICK_NS   500000000ull

enum { SPANS = 1 << 17 };

extern struct sa_span *spans[SPANS], *live[SPANS];

void spans_begin(void);
void spans_take(struct sa_span **of, size_t n, size_t pages);

/* Those that are not NULL. */
void spans_give(struct sa_span **of, size_t n);

/* The next tick, TICK_NS after the last one. */
void spans_tick(void);

/* MiB that are free and have memory, and that the heap has released since the start. */
size_t spans_backed(void);
size_t spans_released(void);

#endif
