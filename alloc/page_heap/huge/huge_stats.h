/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics of the hugepage-aware page heap, by component: a snapshot for reports, taken under
 * the heap's lock. "used" pages are handed out. "free" pages are free and backed, as far as the
 * heap knows. "unmapped" pages are free and unbacked. Sizes are in pages of 8 KiB or hugepages of 2
 * MiB, as named.
 *
 * The sum of used, free and unmapped pages over all components, and of moving pages, is the mapped
 * address space of the heap.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_STATS_H
#define SA_PAGE_HEAP_HUGE_HUGE_STATS_H

#include "alloc/page_heap/account/heap_types.h"
#include "alloc/page_heap/account/size_info.h"
#include "alloc/page_heap/account/span_ages.h"

#define SA_HUGE_PAGES   256 /* pages of a hugepage */
#define SA_HUGE_BYTES   (SA_HUGE_PAGES * SA_PAGE_BYTES)
#define SA_HUGE_BUCKETS 24 /* of the fullness histograms */

/* Least value of each bucket; numbers of allocations are counted one higher. */
extern const uint16_t sa_huge_bucket_min[SA_HUGE_BUCKETS];

struct sa_huge_part {
    size_t used_pages, free_pages, unmapped_pages;
};

/* Kinds of hugepages in the filler. */
enum sa_huge_kind {
    SA_HUGE_REGULAR,
    SA_HUGE_DONATED,  /* only the tail of a large span lies there */
    SA_HUGE_PARTIAL,  /* partially released; some of its free pages are backed */
    SA_HUGE_RELEASED, /* partially released; all its free pages are unbacked */
    SA_HUGE_KINDS,
};

struct sa_huge_histograms {
    size_t free_pages[SA_HUGE_BUCKETS];
    size_t longest_free[SA_HUGE_BUCKETS];
    size_t allocations[SA_HUGE_BUCKETS]; /* bucket b: of sa_huge_bucket_min[b] + 1 and more */
};

/* The filler at one moment of the past five minutes. */
struct sa_huge_moment {
    size_t used_pages, free_pages, unmapped_pages;
    size_t hugepages[SA_HUGE_KINDS];
};

struct sa_huge_filler_stats {
    size_t hugepages;                 /* in the filler = full + partial + released */
    size_t full, partial;             /* not partially released: without, with free pages */
    size_t released, partly_released; /* partially released: all, those of kind PARTIAL */
    size_t used_pages, free_pages, unmapped_pages;
    size_t unmapped_in_released;    /* free unbacked pages of partially released hugepages */
    size_t used_in_released;        /* used pages of these, of both kinds, */
    size_t used_in_partly_released; /* and of those of kind PARTIAL */
    size_t used_hugepageable;       /* used pages of the other hugepages */
    uint64_t subreleased_pages, subreleased_hugepages; /* since start */
    struct sa_huge_histograms kind[SA_HUGE_KINDS];
    /* The past five minutes. */
    size_t min_free_pages;        /* least free and unmapped pages at any time */
    size_t min_free_backed_pages; /* least free pages: the realized fragmentation */
    struct sa_huge_moment peak_demand, peak_hugepages;
};

struct sa_huge_region_stats {
    size_t regions;
    size_t hugepages, backed_hugepages;
    size_t used_pages, free_pages, unmapped_pages;
};

struct sa_huge_range {
    size_t min, now, max;
};

struct sa_huge_cache_stats {
    size_t cached, limit;       /* hugepages */
    uint64_t hits, misses;      /* requests served from the cache, and not */
    uint64_t stored, overflows; /* ranges put into the cache, and those that passed its limit */
    uint64_t fast_released;     /* hugepages released because of the limit */
    uint64_t periodic_released; /* hugepages released by time or by request */
    uint64_t cached_mib_s;      /* MiB times seconds since start */
    struct sa_huge_range usage, off_peak, size; /* hugepages, the past ten minutes */
};

struct sa_huge_address_stats {
    size_t nodes_used, nodes_created; /* of the trees: cache and address map */
    size_t longest;                   /* hugepages of the longest unbacked range */
    size_t free;                      /* unbacked hugepages = requested - in_use */
    size_t requested,
        in_use; /* hugepages mapped from the system, and handed on to the components */
};

/* Candidates for a collapse, and the hugepages that the kernel made of them. */
struct sa_huge_collapse_stats {
    int mode;                     /* transparent hugepages in the system: see enum sa_thp_mode */
    uint64_t tried, made, sparse; /* sparse: too little was resident */
    uint64_t failures;            /* in a row, up to now; after some the heap pauses */
    size_t advised, thp_disabled; /* hugepages that are advised; that are excluded */
    uint64_t refused; /* times that the kernel refused advice, or was not asked: see thp_policy.c */
};

struct sa_huge_stats {
    struct sa_page_heap_stats heap;
    struct sa_huge_part part_filler, part_region, part_cache, part_alloc; /* cache's used pages: of
                                                                             large spans outside
                                                                             filler and regions */
    struct sa_huge_filler_stats filler;
    struct sa_huge_region_stats region;
    struct sa_huge_cache_stats cache;
    struct sa_huge_address_stats address;
    struct sa_huge_collapse_stats collapse;
    struct sa_size_info sizes;
    struct sa_span_ages ages;
    uint64_t started_ns; /* the time of the first tick: rates are per time since then */
};

#endif
