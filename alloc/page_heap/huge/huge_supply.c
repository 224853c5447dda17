/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where whole hugepages come from and go to; see huge_supply.h. The cache is asked first, because
 * its hugepages are backed. The kernel is asked for address space last.
 */
#include "alloc/page_heap/huge/huge_supply.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/scratch.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/coalesce.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "pagemap/arena.h"
#include "pagemap/pagemap.h"

#include <string.h>
#include <sys/uio.h>

#define GROW_MAX      8  /* hugepages mapped ahead, at most */
#define GROW_FRACTION 32 /* 1/32 of the mapped hugepages is mapped ahead */
#define NODES_AHEAD   16

/* Bytes of records while all memory is kept: for each hugepage, one span with 512 objects a page;
 * and what does not grow with the heap, as nodes of the radix map. */
#define RECORDS_HUGEPAGE                                                                           \
    (SA_HUGE_PAGES * (sizeof(struct sa_span) + 512 / 8) + sizeof(struct sa_huge_tracker))
#define RECORDS_FIRST (512ul << 10)

/* The first TRACKERS_SINGLE trackers get memory one by one, later ones TRACKERS_TOGETHER at a time:
 * about 4 KiB. */
#define TRACKERS_SINGLE   32
#define TRACKERS_TOGETHER 21

/* A request may split a range, map another one, and add an item for itself and one for its tail. */
bool sa_huge_heap_ready(struct sa_huge_heap *h, size_t more)
{
    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    if (SA_LIKELY(h->nodes.unused_count >= h->items + more))
        return true;
    sa_huge_nodes_ready(&h->nodes, h->items + more + NODES_AHEAD);
    return h->nodes.unused_count >= h->items + more;
}

/* In a large heap trackers lie side by side. Reports go through all of them, and other records
 * would lie in between. */
struct sa_huge_tracker *sa_huge_heap_new_tracker(struct sa_huge_heap *h)
{
    struct sa_huge_tracker *t = h->unused_trackers;

    if (t) {
        h->unused_trackers = t->next;
        return t;
    }
    if (!h->fresh_count && h->filler.hugepages >= TRACKERS_SINGLE) {
        h->fresh_trackers = sa_arena_alloc(TRACKERS_TOGETHER * sizeof(*t), SA_CACHELINE);
        h->fresh_count = h->fresh_trackers ? TRACKERS_TOGETHER : 0;
    }
    if (!h->fresh_count)
        return sa_arena_alloc(sizeof(*t), SA_CACHELINE);
    h->fresh_count--;
    return h->fresh_trackers++;
}

SA_RARE void sa_huge_heap_drop_tracker(struct sa_huge_heap *h, struct sa_huge_tracker *t)
{
    t->next = h->unused_trackers;
    h->unused_trackers = t;
}

void sa_huge_heap_track(struct sa_huge_heap *h, struct sa_huge_tracker *t, size_t hugepage,
                        uint32_t unbacked_from)
{
    SA_DCHECK(sa_hugepage_map_owner(&h->owners, hugepage) == 0); /* H2 */
    sa_huge_filler_prepare(t, hugepage, unbacked_from, sa_huge_heap_is_eager(h, hugepage));
    t->no_hugepages = sa_hugepage_map_advice(&h->owners, hugepage) == SA_ADVICE_OFF;
    sa_hugepage_map_set(&h->owners, hugepage, (uintptr_t)t);
    h->items++;
    SA_DCHECK(h->nodes.unused_count >= h->items); /* H4 */
}

SA_RARE void sa_huge_heap_touch_records(struct sa_huge_heap *h, size_t start, size_t n)
{
    sa_pagemap_touch(start << SA_HUGE_SHIFT, n * SA_HUGE_BYTES);
    sa_arena_reserve(RECORDS_FIRST + h->mapped * RECORDS_HUGEPAGE);
}

size_t sa_huge_heap_grow(struct sa_huge_heap *h, size_t n, size_t align)
{
    /* Where memory is locked, the kernel backs what is mapped. */
    size_t ahead = sa_vm_is_locked() ? 0 : sa_min(h->mapped / GROW_FRACTION, GROW_MAX);
    size_t want = sa_max(n, ahead), start;
    void *p = sa_heap_space_map(&h->space, want * SA_HUGE_BYTES, align * SA_HUGE_BYTES);

    if (!p && want > n) {
        want = n;
        p = sa_heap_space_map(&h->space, want * SA_HUGE_BYTES, align * SA_HUGE_BYTES);
    }
    if (!p)
        return SA_HUGE_NONE;
    start = (uintptr_t)p >> SA_HUGE_SHIFT;
    SA_DCHECK(start << SA_HUGE_SHIFT == (uintptr_t)p && start % align == 0);
    if (!sa_hugepage_map_grow(&h->owners, start, want)) {
        sa_vm_unmap_space(p, want * SA_HUGE_BYTES);
        return SA_HUGE_NONE;
    }
    h->first = h->end ? sa_min(h->first, start) : start;
    h->end = sa_max(h->end, start + want);
    h->mapped += want;
    h->stats.grown++;
    if (sa_limits_keep_all())
        sa_huge_heap_touch_records(h, start, want);
    sa_huge_map_insert(&h->released, &h->nodes, start, want, h->now_ns);
    return start;
}

size_t sa_huge_heap_take_released(struct sa_huge_heap *h, size_t n, size_t align)
{
    size_t start = sa_huge_map_take(&h->released, &h->nodes, n, align);

    if (start == SA_HUGE_NONE) {
        start = sa_huge_heap_grow(h, n, align);
        if (start != SA_HUGE_NONE)
            sa_huge_map_take_at(&h->released, &h->nodes, start, n);
    }
    return start;
}

/* Puts the last empty hugepage with the free ones before more is mapped. Under a limit it stays, if
 * it is partly backed: in the cache all of it would count as backed. */
static bool heap_evict_last_empty(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_moving none = {.n = 0};
    uint32_t backed;

    if (!h->last_empty || h->last_empty->range.taken)
        return false;
    backed = sa_huge_tracker_backed(h->last_empty);
    if (h->before != SIZE_MAX && backed && backed < SA_HUGE_PAGES)
        return false;
    sa_huge_heap_evict(h, h->last_empty, &none);
    return true;
}

/* The pages that become backed if this many are taken of unbacked hugepages. */
static size_t taken_grows(const struct sa_huge_heap *h, size_t start, size_t pages)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    return sa_huge_heap_is_eager(h, start + pages / SA_HUGE_PAGES)
               ? sa_align_up(pages, SA_HUGE_PAGES)
               : pages;
}

size_t sa_huge_heap_take(struct sa_huge_heap *h, size_t pages, size_t align, enum sa_huge_use use,
                         struct sa_huge_fresh *ret_fresh)
{
    size_t n = sa_align_up(pages, SA_HUGE_PAGES) / SA_HUGE_PAGES;
    size_t start = sa_huge_cache_take(&h->cache, n, align);
    bool fresh = true;

    SA_DCHECK(n > 0);
    *ret_fresh = (struct sa_huge_fresh){.all = false, .last = false};
    if (start == SA_HUGE_NONE && n > 1 && align == 1 && !h->to_be_zero)
        start = sa_huge_heap_coalesce(h, n, &ret_fresh->last);
    if (start != SA_HUGE_NONE)
        return start;
    start = sa_huge_map_take(&h->released, &h->nodes, n, align);
    if (start == SA_HUGE_NONE && heap_evict_last_empty(h)) {
        start = sa_huge_map_take(&h->cache.map, &h->nodes, n, align);
        fresh = false;
    }
    if (start == SA_HUGE_NONE) {
        start = sa_huge_heap_take_released(h, n, align);
        fresh = true;
    }
    if (start == SA_HUGE_NONE) {
        sa_huge_cache_unuse(&h->cache, n);
        return start;
    }
    *ret_fresh = (struct sa_huge_fresh){.all = fresh, .last = fresh};
    if (fresh)
        sa_huge_heap_advise_for(h, start, pages, use);
    if (sa_huge_heap_admits(h, fresh ? taken_grows(h, start, pages) : 0))
        return start;
    sa_huge_heap_put(h, start, n, fresh);
    return SA_HUGE_NONE;
}

void sa_huge_heap_put(struct sa_huge_heap *h, size_t hugepage, size_t n, bool zero)
{
    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    SA_DCHECK(n > 0 && hugepage >= h->first && hugepage + n <= h->end);
    if (zero) {
        sa_huge_cache_unuse(&h->cache, n);
        sa_huge_map_insert(&h->released, &h->nodes, hugepage, n, h->now_ns);
    } else {
        sa_huge_cache_put(&h->cache, hugepage, n);
    }
}

SA_RARE void sa_huge_heap_evict(struct sa_huge_heap *h, struct sa_huge_tracker *t,
                                struct sa_huge_moving *moving)
{
    size_t hugepage = t->hugepage;

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    SA_DCHECK(t->range.taken == 0 && h->items > 0);
    SA_DCHECK(sa_hugepage_map_tracker(&h->owners, hugepage) == t); /* H2 */
    if (h->last_empty == t)
        h->last_empty = NULL;
    sa_huge_filler_remove(&h->filler, t);
    sa_hugepage_map_set(&h->owners, hugepage, 0);
    if (t->subreleased && t->unbacked_pages < SA_HUGE_PAGES && !sa_limits_keep_all()) {
        /* Partly unbacked, it would not serve as a hugepage: all of it is released. */
        sa_huge_cache_unuse(&h->cache, 1);
        *moving = (struct sa_huge_moving){.hugepage = hugepage, .n = 1};
        h->moving++; /* the tracker's item becomes the moving range's */
    } else {
        h->items--;
        sa_huge_heap_put(h, hugepage, 1, t->clean || sa_huge_tracker_backed(t) == 0);
    }
    sa_huge_heap_drop_tracker(h, t);
}

SA_RARE void sa_huge_heap_emptied(struct sa_huge_heap *h, struct sa_huge_tracker *t,
                                  struct sa_huge_moving *moving)
{
    SA_DCHECK(t->range.taken == 0);
    if (!t->subreleased && (!h->last_empty || h->last_empty == t || h->last_empty->range.taken))
        h->last_empty = t;
    else
        sa_huge_heap_evict(h, t, moving);
}

/* Releases the runs of pages of a mask by one call. False: the kernel did not release them all. */
SA_RARE static bool release_at_once(char *start, const uint64_t *mask)
{
    struct iovec *runs = sa_scratch_take();
    unsigned count = 0;
    uint32_t end;
    bool done;

    if (!runs)
        return false;
    for (uint32_t at = sa_bits_next(mask, SA_HUGE_PAGES, 0, true); at < SA_HUGE_PAGES;
         at = sa_bits_next(mask, SA_HUGE_PAGES, end, true)) {
        end = sa_bits_next(mask, SA_HUGE_PAGES, at, false);
        runs[count++] = (struct iovec){start + ((size_t)at << SA_PAGE_SHIFT), (size_t)(end - at)
                                                                                  << SA_PAGE_SHIFT};
    }
    done = count > 1 && sa_vm_release_runs(runs, count);
    sa_scratch_give(runs);
    return done;
}

SA_RARE bool sa_huge_heap_release_runs(size_t hugepage, const uint64_t *mask, uint64_t *done)
{
    char *start = (char *)(hugepage << SA_HUGE_SHIFT);
    uint32_t end;

    if (release_at_once(start, mask)) {
        memcpy(done, mask, SA_HUGE_WORDS * sizeof(*done));
        return true;
    }
    for (uint32_t at = sa_bits_next(mask, SA_HUGE_PAGES, 0, true); at < SA_HUGE_PAGES;
         at = sa_bits_next(mask, SA_HUGE_PAGES, end, true)) {
        end = sa_bits_next(mask, SA_HUGE_PAGES, at, false);
        if (!sa_vm_release(start + ((size_t)at << SA_PAGE_SHIFT), (size_t)(end - at)
                                                                      << SA_PAGE_SHIFT))
            return false;
        sa_bits_fill(done, at, end - at, true);
    }
    return true;
}

/* One page at least lies between two runs. */
SA_STATIC_ASSERT(SA_HUGE_PAGES / 2 * sizeof(struct iovec) <= SA_SCRATCH_BYTES, "the runs fit");
