/* SPDX-License-Identifier: Apache-2.0 */
/* What span_heap.c and release.c share: the state of a plain page heap. See span_heap.c. */
#ifndef SA_PAGE_HEAP_SPAN_HEAP_INTERNAL_H
#define SA_PAGE_HEAP_SPAN_HEAP_INTERNAL_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/free_lists.h"
#include "alloc/page_heap/page_heap.h"

#define MIB_PAGES (1048576 >> SA_PAGE_SHIFT)

struct sa_page_heap {
    struct sa_lock lock; /* PAGE_HEAP; guards everything below */
    uint8_t number;
    const char *name;
    struct sa_free_lists backed, released;
    struct sa_span *unused; /* records, linked by next */
    bool own_window;        /* const: only in its own address window, without hugepages */
    uintptr_t hint;         /* where to ask for the next mapping */
    size_t mapped_pages, in_use_pages, moving_pages;
    size_t low_water; /* least backed pages since the last tick */
    uint64_t last_tick_ns;
    bool refused;         /* the kernel would not take memory back: only ticks try again */
    uint64_t freed_bytes; /* atomic, relaxed for readers */
    struct sa_page_heap_stats stats; /* the counters; sizes are filled in on request */
};

extern size_t sa_page_step; /* kernel pages in salloc pages, at least 1; const after init */

/* All with the lock held. */

/* Adds a free span (state set, in no list) to the lists, merged with its neighbours (P3). */
void sa_span_heap_add_free(struct sa_page_heap *h, struct sa_span *s);

/* Cuts a span (in no list) after the first pages; the new record for the rest, or NULL. */
struct sa_span *sa_span_heap_split(struct sa_page_heap *h, struct sa_span *s, size_t pages);

void sa_span_heap_drop_record(struct sa_page_heap *h, struct sa_span *s);

#endif
