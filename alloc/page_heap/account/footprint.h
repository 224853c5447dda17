/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The footprint: the memory that salloc uses, "actual memory used" on the stats page. It is all
 * mapped address space less the unbacked pages. Records, slabs and tables count. Pages that the
 * program was given and has not touched count, too. Spans of quarantined blocks whose pages were
 * released do not count (sa_page_heap_emptied), nor do pages of free objects that were given back
 * under a soft limit (alloc/middle/central_empty.h).
 *
 * Each page heap stores its part under its own lock. Address space that a heap maps is unbacked,
 * so the heap counts it when it hands it out. Pages that are being released count as used until
 * the release has finished. A reader without locks sees too much for a moment, never too little.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_FOOTPRINT_H
#define SA_PAGE_HEAP_ACCOUNT_FOOTPRINT_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stddef.h>
#include <stdint.h>

#define SA_FOOTPRINT_HEAPS 4 /* the number of each page heap is below this */

struct sa_footprint {
    uint64_t used[SA_FOOTPRINT_HEAPS]; /* atomic: bytes; each heap's lock guards its entry */
    int64_t emptied; /* atomic: bytes of these that free objects of spans in use have given back */
    /* Atomic, relaxed: free backed bytes of the ordinary heap, whose lock guards them: all, and
     * those between spans, in partly used hugepages. */
    uint64_t idle, between;
};

extern struct sa_footprint sa_footprint;

/* Notes how many bytes of a heap are backed now, free or not. The store is relaxed; for the store
 * that limits need see limits.h. */
SA_INLINE void sa_footprint_note(unsigned heap, size_t used_bytes)
{
    sa_store_relaxed(&sa_footprint.used[heap], used_bytes);
}

/* Notes that pages inside of free objects hold no memory, after they were given back; or, a
 * negative number, that they may, before they are handed out. */
SA_INLINE void sa_footprint_empty(int64_t bytes)
{
    sa_add_relaxed(&sa_footprint.emptied, bytes);
}

size_t sa_footprint_bytes(void);

/* The same with what free objects have given back. */
size_t sa_footprint_gross_bytes(void);

#endif
