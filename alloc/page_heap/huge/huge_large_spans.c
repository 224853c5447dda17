/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans on hugepages of their own; see huge_large_spans.h. If the last hugepage is not full, it is
 * in the filler, donated. The span's tail is one allocation in it, and other spans may take the
 * rest. They then keep the hugepage when the large span is freed.
 */
#include "alloc/page_heap/huge/huge_large_spans.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/span_records.h"
#include "alloc/page_heap/huge/coalesce.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "pagemap/pagemap.h"

/* The two parts of a large span. */
struct extent {
    size_t first; /* hugepage */
    size_t full;  /* hugepages of its own */
    uint32_t tail;
};

static struct extent extent_of(uintptr_t start, size_t pages)
{
    return (struct extent){.first = start >> SA_HUGE_SHIFT,
                           .full = pages / SA_HUGE_PAGES,
                           .tail = (uint32_t)(pages % SA_HUGE_PAGES)};
}

static void large_link(struct sa_huge_heap *h, struct sa_span *s) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    s->objects = 0;
    s->prev = NULL;
    s->next = h->large_spans;
    if (s->next)
        s->next->prev = s;
    h->large_spans = s;
}

static void large_unlink(struct sa_huge_heap *h, struct sa_span *s) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (h->large_cursor == s) {
        h->large_cursor = s->next;
        h->cursor_hugepage = 0;
    }
    if (s->next)
        s->next->prev = s->prev;
    if (s->prev)
        s->prev->next = s->next;
    else
        h->large_spans = s->next;
}

/* Adds the last hugepage of a large span to the filler, with n pages taken. */
static void tail_add(struct sa_huge_heap *h, struct sa_huge_tracker *t, size_t hugepage, uint32_t n,
                     uint32_t unbacked_from, bool of_large) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    sa_huge_heap_track(h, t, hugepage, unbacked_from);
    sa_huge_filler_add(&h->filler, t, n, true, false);
    if (of_large)
        sa_huge_filler_set_tail(&h->filler, t, n);
}

/* Takes it out of the filler again: the large span has all its taken pages. */
static void tail_remove(struct sa_huge_heap *h, struct sa_huge_tracker *t)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    sa_huge_filler_remove(&h->filler, t);
    sa_hugepage_map_set(&h->owners, t->hugepage, 0);
    h->items--;
}

struct sa_span *sa_huge_large_alloc(struct sa_huge_heap *h, struct sa_span *s, size_t pages,
                                    size_t align)
{
    struct extent e = extent_of(0, pages);
    struct sa_huge_tracker *t = NULL;
    struct sa_huge_fresh fresh;

    SA_DCHECK(pages > 0);
    if (!sa_huge_heap_ready(h, 4))
        return NULL;
    if (e.tail) {
        t = sa_huge_heap_new_tracker(h);
        if (!t)
            return NULL;
    }
    e.first = sa_huge_heap_take(h, pages, sa_max(align / SA_HUGE_PAGES, 1), SA_USE_LARGE, &fresh);
    if (e.first == SA_HUGE_NONE) {
        if (t)
            sa_huge_heap_drop_tracker(h, t);
        return NULL;
    }
    sa_store_relaxed(&s->start, e.first << SA_HUGE_SHIFT);
    sa_store_relaxed(&s->pages, (uint32_t)pages);
    sa_span_begin(s, fresh.all);
    if (e.full) {
        if (fresh.all)
            sa_huge_heap_probe_large(h, e.first, e.full);
        large_link(h, s);
        h->items++;
        SA_DCHECK(h->nodes.unused_count >= h->items); /* H4 */
        h->large_pages += e.full * SA_HUGE_PAGES;
    }
    if (t) /* an aligned span that is shorter than a hugepage is all tail */
        tail_add(h, t, e.first + e.full, e.tail, fresh.last ? 0 : SA_HUGE_PAGES, e.full != 0);
    return s;
}

/* Takes the tail's pages back. True if the hugepage is free, to go with the rest of the span. */
static bool tail_free(struct sa_huge_heap *h, size_t hugepage, uint32_t n, bool zero,
                      struct sa_huge_moving *moving) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_huge_tracker *t = sa_hugepage_map_tracker(&h->owners, hugepage);

    SA_DCHECK(t && t->tail_pages == n && t->range.taken >= n);
    if (t->range.taken == n && !t->subreleased && !zero) { /* the most frequent case */
        tail_remove(h, t);
        sa_huge_heap_drop_tracker(h, t);
        return true;
    }
    if (!sa_huge_filler_put(&h->filler, t, 0, n, zero)) {
        sa_huge_filler_abandon(&h->filler, t);
        return false;
    }
    sa_huge_filler_set_tail(&h->filler, t, 0);
    sa_huge_heap_evict(h, t, moving);
    return false;
}

void sa_huge_large_free(struct sa_huge_heap *h, struct sa_span *s, bool zero,
                        struct sa_huge_moving *moving)
{
    struct extent e = extent_of(s->start, s->pages);
    bool whole = e.tail && tail_free(h, e.first + e.full, e.tail, zero, moving);

    SA_DCHECK(e.full > 0 && h->items > 0 && h->large_pages >= e.full * SA_HUGE_PAGES);
    sa_huge_heap_forget_large(h, e.first);
    large_unlink(h, s);
    h->items--;
    h->large_pages -= e.full * SA_HUGE_PAGES;
    sa_huge_heap_put(h, e.first, e.full + whole, zero);
}

/* Maps more behind a span at the end of the heap's address space. Only under a limit, where there
 * may be no room for a copy. */
static bool grow_behind(struct sa_huge_heap *h, size_t hugepage, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_huge_node *behind = sa_huge_map_find(&h->released, hugepage);
    size_t end = behind ? behind->start + behind->length : hugepage;

    return sa_limits_active() &&
           end << SA_HUGE_SHIFT ==
               *sa_heap_space_next(&h->space, (hugepage + n - end) << SA_HUGE_SHIFT) &&
           sa_huge_heap_grow(h, hugepage + n - end, 1) != SA_HUGE_NONE &&
           sa_huge_map_take_at(&h->released, &h->nodes, hugepage, n);
}

/* Takes the n hugepages behind a span, if they are free. *ret_last_fresh: the last is unbacked. */
static bool take_behind(struct sa_huge_heap *h, size_t hugepage, size_t n, bool *ret_last_fresh)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    *ret_last_fresh = false;
    if (sa_huge_cache_take_at(&h->cache, hugepage, n))
        return true;
    if (sa_huge_heap_coalesce_at(h, hugepage, n, ret_last_fresh)) {
        sa_huge_cache_use(&h->cache, n);
        return true;
    }
    *ret_last_fresh = true;
    if (!sa_huge_map_take_at(&h->released, &h->nodes, hugepage, n) && !grow_behind(h, hugepage, n))
        return false;
    sa_huge_heap_advise_for(h, hugepage, n * SA_HUGE_PAGES, SA_USE_REGION);
    sa_huge_cache_use(&h->cache, n);
    return true;
}

bool sa_huge_large_extend(struct sa_huge_heap *h, struct sa_span *s, size_t pages)
{
    struct extent old = extent_of(s->start, s->pages), new = extent_of(s->start, pages);
    size_t have = old.full + (old.tail != 0), want = new.full + (new.tail != 0);
    struct sa_huge_tracker *t =
        old.tail ? sa_hugepage_map_tracker(&h->owners, old.first + old.full) : NULL;
    bool zero = false;

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    SA_DCHECK(pages > s->pages && old.full > 0);
    if (t && new.full == old.full) { /* stays within its last hugepage */
        if (!sa_huge_filler_extend(&h->filler, t, old.tail, new.tail - old.tail))
            return false;
        sa_huge_filler_set_tail(&h->filler, t, new.tail);
        return true;
    }
    if (t && t->range.taken != old.tail)
        return false;
    if (!sa_huge_heap_ready(h, 4))
        return false;
    if (!t && new.tail) {
        t = sa_huge_heap_new_tracker(h);
        if (!t)
            return false;
    }
    if (want > have && !take_behind(h, old.first + have, want - have, &zero)) {
        if (t && !old.tail)
            sa_huge_heap_drop_tracker(h, t);
        return false;
    }
    if (old.tail)
        tail_remove(h, t);
    if (new.tail)
        tail_add(h, t, new.first + new.full, new.tail, zero ? 0 : SA_HUGE_PAGES, true);
    else if (t)
        sa_huge_heap_drop_tracker(h, t);
    h->large_pages += (new.full - old.full) * SA_HUGE_PAGES;
    return true;
}

bool sa_huge_large_shrink(struct sa_huge_heap *h, struct sa_span *s, size_t pages, bool zero,
                          struct sa_huge_moving *moving)
{
    struct extent old = extent_of(s->start, s->pages), new = extent_of(s->start, pages);
    struct sa_huge_tracker *t = NULL;
    size_t behind = new.first + new.full + (new.tail != 0);
    bool whole;

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    SA_DCHECK(pages < s->pages && old.full > 0);
    if (old.full == new.full) { /* both tails are in the same hugepage */
        t = sa_hugepage_map_tracker(&h->owners, old.first + old.full);
        if (new.tail) {
            sa_huge_filler_trim(&h->filler, t, new.tail, old.tail - new.tail, zero);
            sa_huge_filler_set_tail(&h->filler, t, new.tail);
        } else if (tail_free(h, old.first + old.full, old.tail, zero, moving)) {
            sa_huge_heap_put(h, old.first + old.full, 1, false);
        }
        return true;
    }
    if (!sa_huge_heap_ready(h, 3))
        return false;
    if (new.tail) {
        t = sa_huge_heap_new_tracker(h);
        if (!t)
            return false;
    }
    sa_huge_heap_forget_large(h, old.first);
    whole = old.tail && tail_free(h, old.first + old.full, old.tail, zero, moving);
    if (old.first + old.full + whole > behind)
        sa_huge_heap_put(h, behind, old.first + old.full + whole - behind, zero);
    if (t)
        tail_add(h, t, new.first + new.full, new.tail, zero ? new.tail : SA_HUGE_PAGES,
                 new.full != 0);
    h->large_pages -= (old.full - new.full) * SA_HUGE_PAGES;
    if (!new.full) { /* the span lies in the filler from now on */
        large_unlink(h, s);
        h->items--;
    }
    return true;
}
