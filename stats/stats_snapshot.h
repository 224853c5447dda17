/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot of all counters. Each layer is read under its own locks, one layer after the other.
 * The snapshot is therefore exact while no other thread allocates, and approximate otherwise. It is
 * all zero while a fork is in progress. Bytes in use are the mapped bytes less everything else, so
 * that the rows of the summary always add up:
 *
 *   mapped = in use + page heap (backed) + central + emptied + cpu + transfer + quarantine +
 *            released (+ moving)
 *
 * Metadata is everything else that salloc has mapped. At rest, the sum of all rows is therefore
 * sa_vm_mapped_bytes() to the byte. The library's own data (the radix map's roots and home leaf) is
 * not mapped by salloc, and not counted.
 */
#ifndef SA_STATS_STATS_SNAPSHOT_H
#define SA_STATS_STATS_SNAPSHOT_H

#include "alloc/base/page.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/large.h"
#include "alloc/maintain/group_limit.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/sample_rates.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/percpu.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/arena.h"
#include "sampling/guard/guarded.h"
#include "sampling/record/live_samples.h"
#include "sampling/sampler/sampler.h"
#include "sampling/stack/stack.h"

#include <stddef.h>
#include <stdint.h>

struct sa_snapshot_class {
    size_t size;
    size_t cpu_objects, transfer_objects, central_objects, quarantine_objects;
    size_t free_objects; /* the sum of the four */
    size_t
        apart_objects; /* sampled ones in use that hold no object of the class: sa_sampler_apart */
    size_t fragmentation_bytes; /* spans that central_objects would fill */
    size_t mixed_objects;       /* on mixed spans, in use or in caches */
    size_t spans, pages;
    uint64_t spans_requested, spans_returned;
    uint64_t allocations, frees; /* since the start */
};

#define SA_REPORT_HUGEPAGE_BYTES (2ul << 20)

/* Features that are in effect or not; sa_experiment_names has names such as "SALLOC_PER_CPU". */
enum sa_experiment {
    SA_EXPERIMENT_PER_CPU,
    SA_EXPERIMENT_LLC_DOMAINS,
    SA_EXPERIMENT_OPTIMAL_RATES,
    SA_EXPERIMENTS,
};

extern const char *const sa_experiment_names[SA_EXPERIMENTS];

/* Classes that the stats page names as fragmented. */
#define SA_FRAGMENTED_MAX 5

struct sa_snapshot {
    struct sa_page_heap_stats heap; /* of both heaps together */
    struct sa_arena_stats arena;
    unsigned classes;
    struct sa_snapshot_class cls[SA_CLASSES_MAX];
    size_t in_use_bytes;
    size_t cpu_bytes, thread_bytes;                  /* one of them is 0 */
    size_t transfer_bytes, sharded_bytes;            /* sharded: the part in shards of CPUs */
    size_t quarantine_bytes, quarantine_limit_bytes; /* freed small blocks, withheld from reuse */
    size_t central_bytes; /* free objects, free runs of mixed spans, and the rest behind the last
                           * object of each span */
    size_t fragmentation_bytes; /* of classes, and free runs of mixed spans */
    struct {
        size_t size, bytes;
    } fragmented[SA_FRAGMENTED_MAX]; /* the classes with most of it, the first one most; then 0 */
    struct sa_mixed_stats mixed;
    size_t emptied_bytes; /* unbacked pages of free objects; not in central_bytes */
    size_t large_blocks, large_bytes;
    struct sa_large_counts large;   /* of large blocks since the start */
    struct sa_large_counts ever;    /* of all blocks since the start */
    size_t sampled_objects;         /* sampled blocks with pages of their own */
    size_t sampled_bytes;           /* of those pages; the part beyond apart_bytes is metadata */
    size_t apart_bytes;             /* of apart_objects, by the size of their class */
    size_t quarantined_bytes;       /* in the sample quarantine, of either heap */
    size_t quarantined_empty_bytes; /* the unbacked part of those */
    size_t pagemap_bytes, pagemap_root_resident_bytes, slab_bytes;
    size_t metadata_bytes; /* arena in use, slabs, stacks, and other_bytes */
    size_t other_bytes;    /* tables by address, guarded blocks, emergency memory, profiles that the
                            * program holds, buffers of reports */
    size_t reserved_bytes; /* unused parts of tables by address and of the guarded pools */
    size_t released_bytes; /* unbacked spans, and reserved_bytes */
    size_t system_bytes;   /* all address space that salloc has mapped */
    size_t threads_in_use, threads_created;
    size_t resident_bytes; /* RSS of the process, from the kernel; 0 if it does not tell */
    size_t mapped_bytes;   /* address space of the process; the same */
    struct sa_peak_stats peak;
    struct sa_sampler_stats sampler;
    size_t sampling_interval;
    struct sa_live_stats live;
    struct sa_stack_stats stacks;
    struct sa_sample_rates_stats rates;
    struct sa_guarded_stats guarded;
    struct sa_limit_stats soft, hard;
    struct sa_group_limit_stats group;
    struct sa_maintenance_stats maintain;
    size_t release_rate;
    unsigned pressure_watched; /* enum sa_pressure_source */
    uint64_t soft_calls; /* times that the program was told that usage passed the soft limit */
    uint64_t map_failures, advise_failures, restarts, fences;
    size_t domains, cpu_cache_limit, threads_limit;
    bool hugepage_aware; /* the ordinary page heap is */
    size_t experiment[SA_EXPERIMENTS];
};

/*
 * What the kernel tells of the process that the snapshot is of, where that is another one: for
 * sallocctl, which has taken over the state of that process (tool/stats/). 0: not known.
 */
struct sa_snapshot_subject {
    int pid;
    char version[16];                    /* of its library */
    uint64_t time_ns;                    /* since 1970 */
    uint64_t clock_ns;                   /* of the coarse clock */
    size_t resident_bytes, mapped_bytes; /* as in struct sa_snapshot */
    uint8_t cpus[SA_SLABS / 8];          /* that its threads may run on */
};

/* Written before the first snapshot. NULL: snapshots are of this process. */
extern const struct sa_snapshot_subject *sa_snapshot_subject;

/* The version of the library that the snapshot is of. */
const char *sa_snapshot_version(void);

/* Takes a snapshot. Takes the locks of all layers, one at a time; no lock may be held by the
 * caller. Allocates nothing. Safe to call from any number of threads. */
void sa_snapshot_take(struct sa_snapshot *ret);

/* Takes a snapshot in memory of the library's own: it is too large for small stacks. NULL: no
 * memory. sa_snapshot_drop gives the memory back; NULL: does nothing. */
struct sa_snapshot *sa_snapshot_new(void);
void sa_snapshot_drop(struct sa_snapshot *s);

/* The counters of a class in each layer, from which the snapshot was computed. */
struct sa_class_detail {
    struct sa_cpu_class_stats cpu;
    struct sa_transfer_stats transfer;
    struct sa_central_stats central;
};

/* The same, with the details of the classes. ret_detail: an array of SA_CLASSES_MAX, or NULL. */
void sa_snapshot_take_detailed(struct sa_snapshot *ret, struct sa_class_detail *ret_detail);

/* A limit in bytes as a metric: 0 in place of SA_NO_LIMIT, which is too large for some readers. */
SA_INLINE size_t sa_snapshot_limit(const struct sa_limit_stats *limit)
{
    return limit->bytes == SA_NO_LIMIT ? 0 : limit->bytes;
}

/* Free backed spans, and "actual memory used", in bytes: sums of rows of the summary. */
size_t sa_snapshot_page_heap_free(const struct sa_snapshot *s);
size_t sa_snapshot_actual(const struct sa_snapshot *s);

/* The realized fragmentation: memory used at the peak beyond the bytes that the program had in use,
 * as a fraction of the latter. 0 if the latter is unknown. */
double sa_snapshot_fragmentation(const struct sa_snapshot *s);

#endif
