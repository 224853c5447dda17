/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back end: spans from address space and back. This is the interface that the layers above
 * use. Ordinary spans come from a hugepage-aware heap (huge_heap.h), sampled ones from a plain heap
 * of spans (span_heap.h). Pages of one instance lie in one address window where the kernel lets
 * them, so that an address tells the instance.
 *
 * A span handed out belongs to the caller, who may write its owner fields (pagemap/span.h). Nothing
 * here calls upwards. The lock (PAGE_HEAP, one per instance) is dropped around the system calls
 * that give memory back.
 */
#ifndef SA_PAGE_HEAP_PAGE_HEAP_H
#define SA_PAGE_HEAP_PAGE_HEAP_H

#include "alloc/page_heap/account/heap_types.h"

struct sa_huge_heap;
struct sa_huge_stats;
struct sa_span_heap;
struct sa_size_info;
struct sa_span_ages;

/* An instance, of either kind: one of the two. Const after init. */
struct sa_page_heap {
    struct sa_huge_heap *huge;
    struct sa_span_heap *plain;
};

/*
 * Instances. The sampled heap lies in the address window after the home window and nowhere else (it
 * rather fails), so that a sampled block is never taken for an ordinary one, and its pages are
 * never part of a hugepage.
 */
extern struct sa_page_heap sa_page_heap_ordinary;
extern struct sa_page_heap sa_page_heap_sampled;

/* Once, before anything else; chooses where the heaps begin from the seed. */
void sa_page_heap_init(uint64_t seed);

/*
 * A span of at least pages pages whose start is a multiple of align pages (a power of two), with
 * state LARGE, class 0 and ends entered in the map. NULL when out of memory. use is a hint.
 */
struct sa_span *sa_page_heap_alloc(struct sa_page_heap *heap, size_t pages, size_t align,
                                   enum sa_pages_use use);

/* Takes back a span in use. zero: its pages are known to be zero and without memory. */
void sa_page_heap_free(struct sa_page_heap *heap, struct sa_span *span, bool zero);

/*
 * The pages of a span in use were given back, and nobody will touch them until the span is freed:
 * until then they are not part of the footprint.
 */
void sa_page_heap_emptied(struct sa_page_heap *heap, struct sa_span *span);

/* Lengthens a LARGE span in place if the pages behind it are free. */
bool sa_page_heap_extend(struct sa_page_heap *heap, struct sa_span *span, size_t pages);

/* Shortens a LARGE span in place and takes back the rest. */
void sa_page_heap_shrink(struct sa_page_heap *heap, struct sa_span *span, size_t pages);

/* Gives at least bytes of free memory back to the system if there is so much; what it gave. */
size_t sa_page_heap_release(struct sa_page_heap *heap, size_t bytes);

/*
 * Unmaps released spans, the longest first, until bytes of address space are free for others (the
 * allocator's own records among them) or there are no more.
 */
void sa_page_heap_unmap(struct sa_page_heap *heap, size_t bytes);

/* Where address space has run out: gives back what can then be unmapped or joined. */
void sa_page_heap_gather(struct sa_page_heap *heap);

/*
 * Gives back free memory that has not been needed since earlier calls: a share of it that
 * grows with the time since the last call (all of it after SA_RELEASE_NS). Called from
 * maintenance. True while free memory remains that a later call would release.
 */
bool sa_page_heap_tick(struct sa_page_heap *heap, uint64_t now_ns);

/*
 * Has the kernel make hugepages of what lies on small pages, going on with what was found at the
 * last tick, until the thread has spent so much CPU time; the last one may take several
 * milliseconds more. What it has spent, as far as it counts (thp_collapse.c); 0: nothing is left
 * until the next tick.
 */
uint64_t sa_page_heap_collapse(struct sa_page_heap *heap, uint64_t most_ns);

/* Whether the address lies in memory that the heap holds and has given to nobody. For telling what
 * is wrong with a pointer: false if that cannot be found out without waiting for long. */
bool sa_page_heap_is_free(struct sa_page_heap *heap, uintptr_t address);

/*
 * Memory that is free in partly used hugepages is given back by request only as long as demand is
 * likely to come back: as high as the highest of the last "peak" interval; or, where that is 0, the
 * largest swing of the last "short" plus the highest low of the last "long" interval. 0 switches a
 * rule off; all are off at first. At most 5 minutes.
 */
void sa_page_heap_set_skip(struct sa_page_heap *heap, enum sa_skip which, uint64_t seconds);
uint64_t sa_page_heap_skip(struct sa_page_heap *heap, enum sa_skip which);

/* Before the heap's first span. */
void sa_page_heap_set_hugepages(struct sa_page_heap *heap, enum sa_hugepages choice);

/* Bytes freed to the heap, modulo 2^64; its growth tells the caller to arrange for ticks. */
uint64_t sa_page_heap_freed(struct sa_page_heap *heap);

void sa_page_heap_stats(struct sa_page_heap *heap, struct sa_page_heap_stats *ret);

/* What of a hugepage-aware heap's address range is in memory, and on hugepages, by the kernel's own
 * tables; for so long (see sa_vm_coverage) no lock is held. False if the kernel does not tell, or
 * the instance is a plain heap. */
struct sa_vm_coverage;
bool sa_page_heap_coverage(struct sa_page_heap *heap, struct sa_vm_coverage *ret);

/* A reading; about 26 KiB, not for a stack. False if the instance is a plain heap. */
bool sa_page_heap_huge_stats(struct sa_page_heap *heap, struct sa_huge_stats *ret);

/* Lengths asked for, and free runs by length and age; about 25 KiB together. False if the instance
 * is not a plain heap. */
bool sa_page_heap_census(struct sa_page_heap *heap, struct sa_size_info *sizes,
                         struct sa_span_ages *ages);

#endif
