/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region: 1 GiB of hugepages in which spans are packed across the ends of hugepages, best fit.
 * The heap uses regions once rounding spans up to hugepages has wasted much memory.
 *
 * A page is taken, free and backed, or free and unbacked: then it reads as zero. Free pages are
 * released by the hugepage, the emptiest first. No lock of its own, no system call:
 * sa_huge_region_begin marks pages as taken, the caller releases them, and sa_huge_region_end notes
 * the result. Pages are counted from the start of the region.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_REGION_H
#define SA_PAGE_HEAP_HUGE_HUGE_REGION_H

#include "alloc/base/attrs.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/range_tracker.h"

#define SA_REGION_HUGEPAGES 512
#define SA_REGION_PAGES     (SA_REGION_HUGEPAGES * SA_HUGE_PAGES)

struct sa_huge_region {
    struct sa_huge_region *next;
    size_t hugepage; /* number of the first */
    bool eager;      /* the kernel backs all pages of its hugepages at once */
    struct sa_range_tracker range;
    uint32_t moving_pages, unbacked_pages;
    uint16_t taken[SA_REGION_HUGEPAGES];       /* pages of each hugepage, moving ones too */
    uint16_t unbacked_in[SA_REGION_HUGEPAGES]; /* unbacked pages of each */
    uint8_t looks[SA_REGION_HUGEPAGES];        /* times that a collapse of each was tried */
    uint64_t
        since_ns[SA_REGION_HUGEPAGES]; /* when pages of it last became free, or were released */
    uint64_t words[SA_REGION_PAGES / 64];
    uint64_t unbacked[SA_REGION_PAGES / 64];
};

struct sa_region_release {
    uint32_t index;                    /* hugepage of the region */
    uint64_t mask[SA_HUGE_PAGES / 64]; /* the pages to release */
    uint32_t pages;
    bool empty; /* nothing of the hugepage is in use */
};

/* Requires zeroed memory. All pages are unbacked. */
void sa_huge_region_init(struct sa_huge_region *r, size_t hugepage, uint64_t now_ns);

struct sa_region_place {
    long at; /* -1: no room */
    uint32_t n;
    uint32_t grows; /* unbacked pages that become backed, also others of the same hugepages */
    bool zero;
};

/* Finds n pages. eager: the kernel will back all pages of a hugepage that was unbacked. The caller
 * then calls commit or cancel. */
struct sa_region_place sa_huge_region_find(struct sa_huge_region *r, uint32_t n, uint32_t align,
                                           bool eager);

/* commit takes the pages; cancel undoes the search. */
void sa_huge_region_commit(struct sa_huge_region *r, const struct sa_region_place *place,
                           bool eager);
void sa_huge_region_cancel(struct sa_huge_region *r, const struct sa_region_place *place);

/* Takes pages back: those of a span if `counted`, else the end of one that shortens. */
void sa_huge_region_put(struct sa_huge_region *r, uint32_t at, uint32_t n, bool counted,
                        uint64_t now_ns);

/* Takes the n pages behind a span that lengthens, if they are free. */
bool sa_huge_region_extend(struct sa_huge_region *r, uint32_t at, uint32_t n, bool eager);

/* Finds the hugepage with most free backed pages to release. It has at least `least` of them, or is
 * empty. The pages count as taken until sa_huge_region_end. False: there is none. */
bool sa_huge_region_begin(struct sa_huge_region *r, uint32_t min, struct sa_region_release *ret);

/* done: those of the pages that were released. */
void sa_huge_region_end(struct sa_huge_region *r, const struct sa_region_release *release,
                        const uint64_t *done, uint64_t now_ns);

/* The first hugepage from `from` on that is nearly full and may be collapsed: a collapse was not
 * tried REGION_LOOKS times since pages of it were released. SA_REGION_HUGEPAGES: none. */
uint32_t sa_huge_region_next_full(const struct sa_huge_region *r, uint32_t from);

/* A collapse of the hugepage was tried; made: the kernel has backed all its pages. */
void sa_huge_region_looked(struct sa_huge_region *r, uint32_t index, bool made);

/* Free backed pages. */
size_t sa_huge_region_backed(const struct sa_huge_region *r);

void sa_huge_region_report(const struct sa_huge_region *r, struct sa_huge_region_stats *ret,
                           struct sa_span_ages *ages, uint64_t now_ns);

/* Free backed pages of all regions of a list. Most programs have no region; the inline function
 * spares them the cold code. */
size_t sa_huge_regions_count_backed(const struct sa_huge_region *first);

SA_INLINE size_t sa_huge_regions_backed(const struct sa_huge_region *first)
{
    return SA_LIKELY(!first) ? 0 : sa_huge_regions_count_backed(first);
}

#endif
