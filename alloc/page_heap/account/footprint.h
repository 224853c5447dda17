/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The footprint: all that salloc has mapped but for what holds no memory, which is "actual memory
 * used" on the stats page. Records, slabs and tables are part of it, and what the program was given
 * but has not touched. Spans of freed blocks in quarantine that have given up their memory are not
 * (sa_page_heap_emptied).
 *
 * Each page heap says under its lock what of its address space is used: not what it maps, which
 * holds no memory then, but what it hands out of that. Whoever releases counts the memory as used
 * until the end of it, so a reader without locks sees too much for a moment, never too little.
 */
#ifndef SA_PAGE_HEAP_ACCOUNT_FOOTPRINT_H
#define SA_PAGE_HEAP_ACCOUNT_FOOTPRINT_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"

#include <stddef.h>
#include <stdint.h>

#define SA_FOOTPRINT_HEAPS 4 /* numbers of page heaps are below */

struct sa_footprint {
    uint64_t used[SA_FOOTPRINT_HEAPS]; /* atomic: bytes, each under the lock of its heap */
};

extern struct sa_footprint sa_footprint;

/* What of a heap holds memory now, free or not. Relaxed: for limits see limits.h. */
SA_INLINE void sa_footprint_note(unsigned heap, size_t used_bytes)
{
    sa_store_relaxed(&sa_footprint.used[heap], used_bytes);
}

size_t sa_footprint_bytes(void);

#endif
