/* SPDX-License-Identifier: Apache-2.0 */
/* The router: which component serves a request, and the records of spans. See huge_heap.h. */
#include "alloc/page_heap/huge/huge_heap.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/account/span_records.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_heap_release.h"
#include "alloc/page_heap/huge/huge_heap_surplus.h"
#include "alloc/page_heap/huge/huge_large_spans.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "alloc/page_heap/huge/huge_regions.h"
#include "alloc/page_heap/huge/huge_supply.h"
#include "pagemap/pagemap.h"

#include <string.h>

struct sa_huge_heap sa_huge_heap_ordinary;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, mapped),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, moving),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, in_use_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, empty_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, large_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, first),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, end),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, now_ns),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, started_ns),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, stats),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, collapse),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, sizes),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, released.hugepages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, released.ranges),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, nodes.created),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, nodes.unused_count),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.map.hugepages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.map.ranges),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.limit),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.ceiling),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.now_ns),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.cached_hp_s),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.cached_since_ns),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.stats),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.usage_min),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.off_peak_min),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, cache.size_min),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.hugepages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.kinds),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.taken_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.moving_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.unbacked_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.now_ns),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.free_min),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.backed_min),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.subreleased_pages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.subreleased_hugepages),
    SA_LAYOUT_STATE("huge", sa_huge_heap_ordinary, filler.slots),
};
SA_LAYOUT_STATIC_ADDRESS("huge", sa_huge_heap_ordinary);

void sa_huge_heap_init(struct sa_huge_heap *h, uint8_t number, const char *name, uintptr_t hint,
                       uintptr_t far)
{
    h->number = number;
    h->space = (struct sa_heap_space){.name = name, .hint = hint, .far = far};
    sa_huge_cache_init(&h->cache, &h->nodes);
    sa_huge_filler_init(&h->filler);
}

void sa_huge_heap_set_hugepages(struct sa_huge_heap *h, enum sa_hugepages choice)
{
    h->choice = choice;
}

uint64_t sa_huge_heap_freed(const struct sa_huge_heap *h)
{
    return sa_load_relaxed(&h->freed_bytes);
}

/* Span records. */

static struct sa_span *heap_new_span(struct sa_huge_heap *h)
{
    return sa_span_record_new(&h->unused_spans, h->number, &h->stats.spans_created);
}

static void heap_drop_span(struct sa_huge_heap *h, struct sa_span *s)
{
    sa_span_record_drop(&h->unused_spans, s);
}

static struct sa_span *span_set(struct sa_span *s, uintptr_t start, size_t pages, bool zero)
{
    SA_DCHECK(pages > 0 && start % SA_PAGE_BYTES == 0);
    /* Inspections look at records that others fill in: sa_pagemap_next. */
    sa_store_relaxed(&s->start, start);
    sa_store_relaxed(&s->pages, (uint32_t)pages);
    sa_span_begin(s, zero);
    return s;
}

static struct sa_span *span_set_at(struct sa_span *s, size_t hugepage, size_t page, size_t pages,
                                   bool zero)
{
    return span_set(s, (hugepage << SA_HUGE_SHIFT) + (page << SA_PAGE_SHIFT), pages, zero);
}

/* Adds a hugepage to the filler, with the span at its start. */
static struct sa_span *filler_grow(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                   bool donated, bool dense) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_tracker *t;
    struct sa_huge_fresh fresh;
    size_t hugepage;
    bool zero;

    if (h->last_empty &&
        h->last_empty->range.taken == 0) { /* kept for spans of the other density */
        t = h->last_empty;
        if (!sa_huge_heap_admits(h, sa_huge_tracker_grows(t, 0, (uint32_t)pages)))
            return NULL;
        h->last_empty = NULL;
        sa_huge_filler_remove(&h->filler, t);
    } else {
        t = sa_huge_heap_ready(h, 2) ? sa_huge_heap_new_tracker(h) : NULL;
        if (!t)
            return NULL;
        hugepage = sa_huge_heap_take(h, pages, 1, dense ? SA_USE_DENSE : SA_USE_SPARSE, &fresh);
        if (hugepage == SA_HUGE_NONE) {
            sa_huge_heap_drop_tracker(h, t);
            return NULL;
        }
        sa_huge_heap_track(h, t, hugepage, fresh.all ? 0 : SA_HUGE_PAGES);
        if (fresh.all && !dense)
            sa_huge_heap_probe(h, t);
    }
    zero = sa_huge_filler_add(&h->filler, t, (uint32_t)pages, donated, dense);
    return span_set_at(s, t->hugepage, 0, pages, zero);
}

static struct sa_span *filler_alloc(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                    size_t align, bool dense) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_filler_place place =
        sa_huge_filler_find(&h->filler, (uint32_t)pages, (uint32_t)align, dense);

    if (!place.tracker)
        return NULL;
    if (!sa_huge_heap_admits(h, place.grows)) {
        sa_huge_filler_cancel(&place);
        return NULL;
    }
    sa_huge_filler_commit(&h->filler, &place, dense);
    return span_set_at(s, place.tracker->hugepage, place.at, pages, place.zero);
}

static struct sa_span *region_alloc(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                    size_t align) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_region *r;
    bool zero;
    long at = sa_huge_heap_region_alloc(h, pages, align, &r, &zero);

    return at < 0 ? NULL : span_set_at(s, r->hugepage, (size_t)at, pages, zero);
}

/* Places the span, for which there is a record, in one of the components. */
static struct sa_span *heap_place(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                  size_t align, bool dense) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_span *got = NULL;

    if (align > SA_HUGE_PAGES || pages > SA_REGION_PAGES || pages % SA_HUGE_PAGES == 0)
        return sa_huge_large_alloc(h, s, pages, align);
    if (pages < SA_HUGE_PAGES)
        got = filler_alloc(h, s, pages, align, dense);
    if (got || h->over)
        return got;
    if (pages <= SA_HUGE_SMALL_PAGES)
        return filler_grow(h, s, pages, false, dense);
    got = region_alloc(h, s, pages, align);
    if (got || h->over)
        return got;
    return pages < SA_HUGE_PAGES ? filler_grow(h, s, pages, true, false)
                                 : sa_huge_large_alloc(h, s, pages, align);
}

/* Gives the span's pages back to their component. The record stays. */
SA_RARE static void heap_give(struct sa_huge_heap *h, struct sa_span *s, bool zero,
                              struct sa_huge_moving *moving) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_tracker *t = sa_hugepage_map_tracker(&h->owners, s->start >> SA_HUGE_SHIFT);
    struct sa_huge_region *r;

    if (t) {
        if (sa_huge_filler_put(&h->filler, t, sa_huge_page_in(s->start), s->pages, zero))
            sa_huge_heap_emptied(h, t, moving);
        return;
    }
    r = sa_hugepage_map_region(&h->owners, s->start >> SA_HUGE_SHIFT);
    if (r)
        sa_huge_region_put(r, (uint32_t)((s->start >> SA_PAGE_SHIFT) - r->hugepage * SA_HUGE_PAGES),
                           s->pages, true, h->now_ns);
    else
        sa_huge_large_free(h, s, zero, moving);
}

static void heap_flush(struct sa_huge_heap *h, struct sa_huge_moving *moving)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_span *s = h->recent;

    if (s) {
        SA_DCHECK(s->state == SA_SPAN_MOVING); /* H5 */
        h->recent = NULL;
        h->flushed = true;
        heap_give(h, s, false, moving);
        heap_drop_span(h, s);
    }
}

void sa_huge_heap_flush(struct sa_huge_heap *h)
{
    struct sa_huge_moving moving = {.n = 0};

    heap_flush(h, &moving);
    if (SA_UNLIKELY(moving.n))
        sa_huge_heap_move(h, &moving);
}

/* True if the span freed last suits the request: same length, alignment, and density. */
static bool recent_serves(const struct sa_huge_heap *h, const struct sa_span *s, size_t pages,
                          size_t align, bool dense)
{
    const struct sa_huge_tracker *t;

    if (s->pages != pages || s->start & ((align << SA_PAGE_SHIFT) - 1))
        return false;
    t = sa_hugepage_map_tracker(&h->owners, s->start >> SA_HUGE_SHIFT);
    return (t && t->dense) == dense || !t;
}

/* *ret_over: the bytes by which the request exceeds the hard limit; 0: a failure has another cause.
 */
static struct sa_span *heap_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                                  enum sa_pages_use use, size_t *ret_over)
{
    bool dense = use == SA_PAGES_DENSE;
    struct sa_huge_moving moving[2] = {{0}};
    struct sa_span *s, *got = NULL;
    size_t before;

    *ret_over = 0;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    h->to_be_zero = use == SA_PAGES_ZERO && !sa_limits_keep_all();
    s = h->recent;
    if (s && recent_serves(h, s, pages, align, dense)) {
        h->recent = NULL;
        got = span_set(s, s->start, pages, false); /* its component still counts it as in use */
    } else {
        heap_flush(h, &moving[0]);
        s = sa_huge_heap_begin(h, pages) ? heap_new_span(h) : NULL;
        before = sa_huge_heap_used(h);
        if (s)
            got = heap_place(h, s, pages, align, dense);
        if (got && h->refault_credit)
            sa_huge_heap_refaulted(h, before);
        *ret_over = h->over;
    }
    if (got) {
        h->in_use_pages += pages;
        h->stats.spans_in_use++;
        sa_size_info_alloc(&h->sizes, pages, sa_huge_slack(pages));
        sa_peak_note(h->number, sa_huge_heap_used(h) << SA_PAGE_SHIFT, sa_span_bytes(got));
    } else {
        if (s)
            heap_drop_span(h, s);
        sa_huge_heap_note(h);
    }
    if (SA_UNLIKELY(moving[0].n))
        sa_huge_heap_settle(h, moving);
    else
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return got;
}

/* Releases as many free bytes as the request exceeds the hard limit by, and tries again. If those
 * were the pages that the span needed, it releases all of them, and tries once more. */
static struct sa_span *alloc_over_limit(struct sa_huge_heap *h, size_t pages, size_t align,
                                        enum sa_pages_use use, size_t over)
{
    struct sa_span *s;

    sa_limits_released(SA_LIMIT_HARD, sa_huge_heap_release(h, over));
    s = heap_alloc(h, pages, align, use, &over);
    if (!s && over) {
        sa_limits_released(SA_LIMIT_HARD, sa_huge_heap_release(h, SIZE_MAX / 2));
        s = heap_alloc(h, pages, align, use, &over);
    }
    return s;
}

struct sa_span *sa_huge_heap_alloc(struct sa_huge_heap *h, size_t pages, size_t align,
                                   enum sa_pages_use use)
{
    struct sa_span *s;
    size_t over;

    /* A request that can never succeed gets no address space: its part of the radix map would
     * stay. */
    if (pages > UINT32_MAX - SA_HUGE_PAGES ||
        (sa_limits_active() && sa_limits_hopeless(pages << SA_PAGE_SHIFT)))
        return NULL;
    pages = sa_align_up(sa_max(pages, 1), sa_vm.page_step);
    align = sa_max(align, sa_vm.page_step);
    s = heap_alloc(h, pages, align, use, &over);
    if (SA_LIKELY(s != NULL)) {
        if (SA_UNLIKELY(sa_load_relaxed(&h->touches.untouched) == s->start >> SA_HUGE_SHIFT))
            sa_huge_heap_touch(h, s);
        return s;
    }
    if (SA_UNLIKELY(over != 0))
        return alloc_over_limit(h, pages, align, use, over);
    /* Address space has run out. Released cached hugepages coalesce with unbacked ranges, and one
     * of these may be long enough. If not, unbacked ranges are unmapped to make room for one. */
    if (sa_huge_heap_gather(h))
        s = heap_alloc(h, pages, align, use, &over);
    if (SA_UNLIKELY(!s && !over) && sa_huge_heap_make_room(h, pages))
        s = heap_alloc(h, pages, align, use, &over);
    return s;
}

void sa_huge_heap_free(struct sa_huge_heap *h, struct sa_span *s, bool zero)
{
    struct sa_huge_moving moving[2] = {{0}};
    bool emptied, settled;

    if (s->moved) {
        enum sa_vm_renewal renewal = sa_vm_renew((void *)s->start, sa_span_bytes(s), h->space.name);

        if (renewal == SA_VM_LOST)
            return; /* the span counts as in use for good */
        zero = renewal == SA_VM_ZEROED;
    }
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    if (s->moved)
        sa_huge_heap_renewed(h, s->start, s->pages, zero);
    SA_DCHECK(s->heap == h->number && s != h->recent);
    SA_DCHECK(sa_pagemap_span(s->start) == s); /* H3 */
    SA_DCHECK(h->in_use_pages >= s->pages && h->stats.spans_in_use > 0);
    sa_huge_heap_note_height(h);
    h->in_use_pages -= s->pages;
    h->stats.spans_in_use--;
    emptied = sa_span_emptied(s, false, &h->empty_pages);
    sa_size_info_free(&h->sizes, s->pages, sa_huge_slack(s->pages));
    if (!zero)
        sa_count_add(&h->freed_bytes, sa_span_bytes(s));
    heap_flush(h, &moving[1]);
    /* No span has gone back to a component since the surplus was looked at. The pages of this one,
     * at most a hugepage, may be free beyond its bound until one does. */
    settled = !zero && !h->flushed && s->pages <= SA_HUGE_PAGES && !sa_limits_active();
    if (zero) {
        heap_give(h, s, true, &moving[0]);
        heap_drop_span(h, s);
    } else {
        SA_DCHECK(!h->recent); /* H5 */
        h->recent = s;
        sa_store_relaxed(&s->state, SA_SPAN_MOVING);
    }
    if (zero || emptied)
        sa_huge_heap_note(h);
    if (SA_LIKELY(settled))
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    else
        sa_huge_heap_settle(h, moving);
}
