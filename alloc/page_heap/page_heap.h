/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back end: makes spans of address space and takes them back. This is the interface for the
 * layers above. Ordinary spans come from a hugepage-aware heap (huge_heap.h), sampled spans from a
 * plain heap (span_heap.h). Pages of one instance lie in one address window where the kernel
 * allows that, so that an address identifies the instance.
 *
 * A span handed out belongs to the caller, who may write its owner fields (pagemap/span.h).
 * Nothing here calls upwards. The lock (PAGE_HEAP, one per instance) is dropped around the system
 * calls that release memory.
 */
#ifndef SA_PAGE_HEAP_PAGE_HEAP_H
#define SA_PAGE_HEAP_PAGE_HEAP_H

#include "alloc/page_heap/account/heap_types.h"

struct sa_huge_heap;
struct sa_huge_stats;
struct sa_span_heap;
struct sa_size_info;
struct sa_span_ages;

/* An instance: exactly one of the pointers is set. Const after init. */
struct sa_page_heap {
    struct sa_huge_heap *huge;
    struct sa_span_heap *plain;
};

/*
 * The instances. The sampled heap lies in the address window after the home window and nowhere
 * else; an allocation outside it fails. A sampled block is therefore never taken for an ordinary
 * one, and its pages are never part of a hugepage.
 */
extern struct sa_page_heap sa_page_heap_ordinary;
extern struct sa_page_heap sa_page_heap_sampled;

/* Called once, before anything else. The seed decides where the heaps begin. */
void sa_page_heap_init(uint64_t seed);

/*
 * A span of at least pages pages whose start is a multiple of align pages (a power of two), with
 * state LARGE, class 0 and ends entered in the map. NULL when out of memory. use is a hint.
 */
struct sa_span *sa_page_heap_alloc(struct sa_page_heap *heap, size_t pages, size_t align,
                                   enum sa_pages_use use);

/* Whether the plain heap would serve such a request by backed pages. A hint where other threads use
 * the heap. */
bool sa_page_heap_has_backed(struct sa_page_heap *heap, size_t pages, size_t align);

/* Takes back a span in use. zero: its pages are known to be unbacked and to read as zero. */
void sa_page_heap_free(struct sa_page_heap *heap, struct sa_span *span, bool zero);

/*
 * Notes that the caller has released the pages of a span in use. Nobody touches them until the
 * span is freed. Until then they are not part of the footprint.
 */
void sa_page_heap_emptied(struct sa_page_heap *heap, struct sa_span *span);

/* Lengthens a LARGE span in place if the pages behind it are free. */
bool sa_page_heap_extend(struct sa_page_heap *heap, struct sa_span *span, size_t pages);

/* Shortens a LARGE span in place and takes back the rest. */
void sa_page_heap_shrink(struct sa_page_heap *heap, struct sa_span *span, size_t pages);

/*
 * Cuts a span in use in two. The first keeps its record and `pages` pages; the rest, which is
 * returned, has a record of its own, state LARGE and its ends in the map. NULL: the span cannot be
 * cut, or out of memory; nothing has changed.
 */
struct sa_span *sa_page_heap_split(struct sa_page_heap *heap, struct sa_span *span, size_t pages);

/* Makes one span of two in use, of which the second begins where the first ends; its record is
 * gone afterwards. The map has the ends of the new span. False: they cannot be joined. */
bool sa_page_heap_join(struct sa_page_heap *heap, struct sa_span *span, struct sa_span *next);

/* Releases at least `bytes` of free memory if there is that much. Returns the bytes released. */
size_t sa_page_heap_release(struct sa_page_heap *heap, size_t bytes);

/*
 * Unmaps released spans, the longest first, until `bytes` of address space are free for others
 * (salloc's own records among them) or no released span is left.
 */
void sa_page_heap_unmap(struct sa_page_heap *heap, size_t bytes);

/* Called when address space has run out: releases what can then be unmapped or coalesced. */
void sa_page_heap_gather(struct sa_page_heap *heap);

/*
 * Releases free memory that no allocation has needed since earlier calls: a share of it that grows
 * with the time since the last call (all of it after SA_RELEASE_NS). Called from maintenance. True
 * while free memory remains that a later call would release.
 */
bool sa_page_heap_tick(struct sa_page_heap *heap, uint64_t now_ns);

/*
 * Releases some of what the last tick found and left, about a millisecond's work, so that no call
 * of the program waits for more. True while more is left. The next tick releases what steps leave,
 * and a tick SA_RELEASE_NS after the one before leaves nothing.
 */
bool sa_page_heap_step(struct sa_page_heap *heap);

/* Not 0: the last tick left memory to release, for sa_page_heap_step. Atomic, relaxed; written
 * under the lock of the heap. */
extern unsigned char sa_page_heap_due;

/*
 * Has the kernel make hugepages of memory that lies on small pages, in the round that began at the
 * last tick. Stops when the thread has spent max_ns of CPU time; the last hugepage may take
 * several milliseconds more. Returns the time that was spent, as far as it counts
 * (thp_collapse.c); 0: nothing is left until the next tick.
 */
uint64_t sa_page_heap_collapse(struct sa_page_heap *heap, uint64_t max_ns);

/* True if the address lies in memory of the heap that is not handed out. For reports about bad
 * pointers: false if the lock cannot be had without a long wait. */
bool sa_page_heap_is_free(struct sa_page_heap *heap, uintptr_t address);

/* Touches the records of a heap that keeps all memory (sa_limits_keep_all), for all that its pages
 * may become. From then on, they are touched when the heap grows. */
void sa_page_heap_prepare(struct sa_page_heap *heap);

/* To be called before the heap's first span. */
void sa_page_heap_set_hugepages(struct sa_page_heap *heap, enum sa_hugepages choice);

/* Bytes freed to the heap, modulo 2^64; its growth tells the caller to arrange for ticks. */
uint64_t sa_page_heap_freed(struct sa_page_heap *heap);

void sa_page_heap_stats(struct sa_page_heap *heap, struct sa_page_heap_stats *ret);

/* How much of a hugepage-aware heap's address range is resident, and how much of that on
 * hugepages, by the kernel's own tables. That takes long (see sa_vm_coverage), and no lock is held
 * meanwhile. False if the kernel does not tell, or the instance is a plain heap. */
struct sa_vm_coverage;
bool sa_page_heap_coverage(struct sa_page_heap *heap, struct sa_vm_coverage *ret);

/* A stats snapshot; about 26 KiB, too large for a stack. False if the instance is a plain heap. */
bool sa_page_heap_huge_stats(struct sa_page_heap *heap, struct sa_huge_stats *ret);

/* Requested lengths, and free runs by length and age; about 25 KiB together. False if the instance
 * is not a plain heap. */
bool sa_page_heap_walk(struct sa_page_heap *heap, struct sa_size_info *sizes,
                       struct sa_span_ages *ages);

#endif
