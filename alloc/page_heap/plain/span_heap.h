/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain page heap: free spans by length, in records of their own. It serves the sampled region,
 * where hugepages are of no use. span_heap.c has its invariants.
 */
#ifndef SA_PAGE_HEAP_PLAIN_SPAN_HEAP_H
#define SA_PAGE_HEAP_PLAIN_SPAN_HEAP_H

#include "alloc/os/lock.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/heap_space.h"
#include "alloc/page_heap/account/heap_types.h"
#include "alloc/page_heap/account/size_info.h"
#include "alloc/page_heap/account/span_ages.h"
#include "alloc/page_heap/plain/free_lists.h"

#define MIB_PAGES (1048576 >> SA_PAGE_SHIFT)

/* The longest span that stays apart when it is freed: that of the largest size class. */
#define SA_SPAN_HEAP_RECENT_MAX (SA_MID_MAX >> SA_PAGE_SHIFT)

/* What the heap's lock guards. */
#define SA_LOCKED SA_GUARDED_BY(SA_RANK_PAGE_HEAP)

struct sa_span_heap {
    struct sa_lock lock;              /* PAGE_HEAP */
    uint8_t number;                   /* const after init */
    uint64_t freed_bytes;             /* atomic, relaxed for readers */
    struct sa_heap_space space;       /* the lock guards it, but for the name, which is const */
    struct sa_span *unused SA_LOCKED; /* records, linked by next */
    size_t mapped_pages SA_LOCKED, in_use_pages SA_LOCKED, moving_pages SA_LOCKED;
    size_t empty_pages SA_LOCKED; /* of spans in use: unbacked */
    size_t low_water SA_LOCKED;   /* least backed pages since the last tick */
    uint64_t now_ns SA_LOCKED;
    bool refused SA_LOCKED; /* the kernel refused to release memory: frees do not try again */
    struct sa_page_heap_stats stats SA_LOCKED; /* the counters; sizes are filled in on request */
    struct sa_free_lists backed SA_LOCKED, released SA_LOCKED;
    struct sa_span *recent SA_LOCKED; /* freed last, in no list: span_heap.c; NULL: none */
    struct sa_size_info sizes SA_LOCKED;
};

void sa_span_heap_init(struct sa_span_heap *h, uint8_t number, const char *name, uintptr_t hint,
                       bool own_window);

/* The functions of page_heap.h. */
struct sa_span *sa_span_heap_alloc(struct sa_span_heap *h, size_t pages, size_t align)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
bool sa_span_heap_has_backed(struct sa_span_heap *h, size_t pages, size_t align)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_span_heap_free(struct sa_span_heap *h, struct sa_span *span, bool zero)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_span_heap_span_emptied(struct sa_span_heap *h, struct sa_span *span)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
bool sa_span_heap_extend(struct sa_span_heap *h, struct sa_span *span, size_t pages)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_span_heap_shrink(struct sa_span_heap *h, struct sa_span *span, size_t pages)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
size_t sa_span_heap_release(struct sa_span_heap *h, size_t bytes) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_span_heap_unmap(struct sa_span_heap *h, size_t bytes) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
bool sa_span_heap_tick(struct sa_span_heap *h, uint64_t now_ns) SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_span_heap_stats(struct sa_span_heap *h, struct sa_page_heap_stats *ret)
    SA_EXCLUDES(SA_RANK_PAGE_HEAP);
void sa_span_heap_walk(struct sa_span_heap *h, struct sa_size_info *sizes,
                       struct sa_span_ages *ages) SA_EXCLUDES(SA_RANK_PAGE_HEAP);

/* Ends the program if an invariant does not hold; the lock is held: span_heap_validate.c. Debug
 * builds call it at ticks. */
void sa_span_heap_validate(struct sa_span_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Between the files of this module, with the lock held. */

/* Adds a free span (state set, in no list) to the lists, merged with its neighbours (P3). */
void sa_span_heap_add_free(struct sa_span_heap *h, struct sa_span *s)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Adds the span freed last to the lists, if it is not there yet. */
void sa_span_heap_flush(struct sa_span_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Cuts a span (in no list) after the first `pages` pages. Returns the new record for the rest, or
 * NULL. */
struct sa_span *sa_span_heap_split(struct sa_span_heap *h, struct sa_span *s, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

void sa_span_heap_drop_record(struct sa_span_heap *h, struct sa_span *s)
    SA_REQUIRES(SA_RANK_PAGE_HEAP);

/* Backed bytes, free or not. */
SA_INLINE size_t sa_span_heap_used_bytes(const struct sa_span_heap *h)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return (h->mapped_pages - h->released.pages - h->empty_pages) << SA_PAGE_SHIFT;
}

/* Notes these bytes in the footprint after a change; see footprint.h. */
SA_INLINE void sa_span_heap_note(const struct sa_span_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    sa_footprint_note(h->number, sa_span_heap_used_bytes(h));
}

#endif
