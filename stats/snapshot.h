/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of all counters. Each floor is read under its own locks, one after the other, so the
 * reading is exact while nothing runs and approximate otherwise. (It is all zero if a fork that
 * takes long is in progress.) Bytes in use are what remains of the
 * mapped bytes when everything else is subtracted, so that the rows of the summary always add up:
 *
 *   mapped = in use + page heap (backed) + central + cpu + transfer + released (+ moving)
 */
#ifndef SA_STATS_SNAPSHOT_H
#define SA_STATS_SNAPSHOT_H

#include "alloc/base/page.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/arena.h"

#include <stddef.h>
#include <stdint.h>

struct sa_snapshot_class {
    size_t size;
    size_t cpu_objects, transfer_objects, central_objects;
    size_t free_objects; /* the sum of the three */
    size_t spans, pages;
    uint64_t spans_requested, spans_returned;
};

struct sa_snapshot {
    struct sa_page_heap_stats heap; /* of both heaps together */
    struct sa_arena_stats arena;
    unsigned classes;
    struct sa_snapshot_class cls[SA_CLASSES_MAX];
    size_t in_use_bytes;
    size_t cpu_bytes, thread_bytes; /* one of them is 0 */
    size_t transfer_bytes;
    size_t central_bytes; /* free objects, and what is left behind the last object of each span */
    size_t large_blocks, large_bytes;
    size_t sampled_objects,
        sampled_bytes; /* pages of sampled objects: in use, beside their proxies */
    size_t pagemap_bytes, slab_bytes;
    size_t metadata_bytes; /* arena in use, pagemap class leaves, slabs */
    size_t threads_in_use, threads_created;
    size_t resident_bytes,
        mapped_bytes; /* of the process, from the kernel; 0 if it does not tell */
};

void sa_snapshot_take(struct sa_snapshot *ret);

#endif
