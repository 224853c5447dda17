/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy about transparent hugepages: the hugepages for which the kernel is advised to back all
 * pages at once, and those for which it is told not to. thp_policy.c has the rules. The heap's lock
 * is held.
 */
#ifndef SA_PAGE_HEAP_HUGE_THP_POLICY_H
#define SA_PAGE_HEAP_HUGE_THP_POLICY_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/huge/hugepage_map.h"

struct sa_huge_heap;
struct sa_huge_tracker;

enum sa_thp_mode { SA_THP_UNKNOWN, SA_THP_NEVER, SA_THP_MADVISE, SA_THP_ALWAYS };

/* What hugepages are taken for: spans of more than 16 objects, other spans of the filler, large
 * spans, regions. */
enum sa_huge_use { SA_USE_DENSE, SA_USE_SPARSE, SA_USE_LARGE, SA_USE_REGION };

#define SA_PROBES       16 /* hugepages that were taken since a probe, before it is looked at */
#define SA_PROBES_SEEN  8  /* results that are kept */
#define SA_LARGE_PROBES 4  /* both, for large spans */

/* A hugepage of the filler of which this much is resident may get the rest of it. */
#define SA_HUGE_DENSE_PERCENT 80

/* The hugepages of a large span, without its tail. */
struct sa_huge_extent {
    size_t first, n; /* n = 0: none */
};

struct sa_huge_advisor {
    size_t edges;                 /* places where the advice changes: each may cost a mapping */
    size_t probes[SA_PROBES];     /* hugepages, the latest first; 0: none */
    uint8_t seen[SA_PROBES_SEEN]; /* percent of the last probes that was resident */
    unsigned looks;
    unsigned since_probe; /* hugepages advised since the last probe */
    /* The same for large spans. */
    struct sa_huge_extent large[SA_LARGE_PROBES];
    uint8_t large_seen[SA_LARGE_PROBES];
    unsigned large_looks, since_large;
};

/* True if hugepages may be collapsed, by the system, the user's choice, the failures of the past
 * and the size and age of the heap. */
bool sa_huge_heap_collapses(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Gives the advice that suits unbacked hugepages that are about to be used for that many pages. */
void sa_huge_heap_advise_for(struct sa_huge_heap *h, size_t hugepage, size_t pages,
                             enum sa_huge_use use) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* A large span has got n unbacked hugepages: it may become a probe. forget: it is a probe no more,
 * because it is freed or becomes shorter. */
void sa_huge_heap_probe_large(struct sa_huge_heap *h, size_t hugepage, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);
void sa_huge_heap_forget_large(struct sa_huge_heap *h, size_t hugepage)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* An unbacked hugepage is about to get sparse spans: it may become a probe. */
void sa_huge_heap_probe(struct sa_huge_heap *h, struct sa_huge_tracker *t)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Excludes a hugepage of which some pages are about to be released while others stay. The kernel
 * might fill it again otherwise. True if the exclusion stands now. */
bool sa_huge_heap_thp_disable(struct sa_huge_heap *h, size_t hugepage)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Ends the exclusion, so that the hugepage can be collapsed. */
void sa_huge_heap_thp_enable(struct sa_huge_heap *h, size_t hugepage)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* The pages of a moved span were mapped afresh. afresh = false: they were not, and the advice that
 * stands is not known. */
void sa_huge_heap_renewed(struct sa_huge_heap *h, uintptr_t start, size_t pages, bool afresh)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Notes the advice that stands. Makes no system call. */
void sa_huge_heap_set_advice(struct sa_huge_heap *h, size_t hugepage, size_t n,
                             enum sa_thp_policy advice) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* True if the first touch of the unbacked hugepage backs all of it, or may. */
bool sa_huge_heap_is_eager(const struct sa_huge_heap *h, size_t hugepage)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

#endif
