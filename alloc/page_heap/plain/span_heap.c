/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain page heap: free spans in two sets of lists, backed (they may hold memory) and released
 * (they are unbacked and read as zero). See page_heap.h for the interface.
 *
 * Invariants, under the lock:
 *   P1  mapped = in use + backed + released + moving (pages).
 *   P2  The map's entries for the first and last page of every span, free or not, point to it.
 *   P3  No two neighbouring free spans of one state exist, except across a window boundary.
 *   P4  A free span does not cross a window boundary (a 64 GiB multiple), so spans of objects do
 *       not either.
 *
 * The short backed span that was freed last stays apart (`recent`). A request for exactly its
 * length gets it, and saves the work of joining it to its neighbours and cutting it out again: most
 * samples take one page. It counts as moving, so P1 to P3 hold, and no neighbour joins it.
 * Any other request, and all that looks at free pages, first puts it into the lists. The lists
 * therefore decide as if it did not exist.
 *
 * Free backed pages beyond a bound are released at once (heap_surplus), so that a program that
 * frees everything and then makes no further call shrinks. sa_page_heap_tick releases the others
 * while they stay unneeded, and maintenance does when most of the ordinary heap was freed.
 */
#include "alloc/page_heap/plain/span_heap.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "alloc/page_heap/account/span_records.h"
#include "pagemap/pagemap.h"

#define HEAP_GROW_MIN   (1 * MIB_PAGES)
#define HEAP_GROW_MAX   (16 * MIB_PAGES)
#define HEAP_EXCESS     (8 * MIB_PAGES) /* free backed pages beyond this are released at once */
#define HEAP_TRIM_ALIGN MIB_PAGES       /* larger alignments get a mapping of exactly their size */

void sa_span_heap_init(struct sa_span_heap *h, uint8_t number, const char *name, uintptr_t hint,
                       bool own_window)
{
    h->number = number;
    h->space = (struct sa_heap_space){.name = name, .own_window = own_window, .hint = hint};
}

static struct sa_span *heap_new_record(struct sa_span_heap *h)
{
    return sa_span_record_new(&h->unused, h->number, &h->stats.spans_created);
}

void sa_span_heap_drop_record(struct sa_span_heap *h, struct sa_span *s)
{
    sa_span_record_drop(&h->unused, s);
}

static struct sa_free_lists *heap_lists(struct sa_span_heap *h, unsigned state)
{
    return state == SA_SPAN_BACKED ? &h->backed : &h->released;
}

void sa_span_heap_add_free(struct sa_span_heap *h, struct sa_span *s)
{
    struct sa_free_lists *lists = heap_lists(h, s->state);
    struct sa_span *prev = sa_pagemap_span(s->start - 1), *next = sa_pagemap_span(sa_span_end(s));

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    SA_DCHECK(s->state == SA_SPAN_BACKED || s->state == SA_SPAN_RELEASED);
    SA_DCHECK(sa_same_window(s->start, sa_span_end(s) - 1)); /* P4 */
    s->idle_since_ns = h->now_ns;
    if (prev && sa_load_relaxed(&prev->state) == s->state && prev->heap == h->number &&
        sa_span_end(prev) == s->start && sa_same_window(prev->start, s->start)) {
        sa_free_lists_remove(lists, prev);
        s->start = prev->start;
        s->pages += prev->pages;
        sa_span_heap_drop_record(h, prev);
    }
    if (next && sa_load_relaxed(&next->state) == s->state && next->heap == h->number &&
        next->start == sa_span_end(s) && sa_same_window(next->start, s->start)) {
        sa_free_lists_remove(lists, next);
        s->pages += next->pages;
        sa_span_heap_drop_record(h, next);
    }
    sa_pagemap_set_ends(s);
    sa_free_lists_add(lists, s);
}

void sa_span_heap_flush(struct sa_span_heap *h)
{
    struct sa_span *s = h->recent;

    SA_DCHECK_HELD(SA_RANK_PAGE_HEAP);
    if (!s)
        return;
    SA_DCHECK(s->state == SA_SPAN_MOVING && h->moving_pages >= s->pages);
    h->recent = NULL;
    h->moving_pages -= s->pages;
    sa_store_relaxed(&s->state, SA_SPAN_BACKED);
    sa_span_heap_add_free(h, s);
}

/* Adds a free span to the lists, or makes it the one freed last. */
static void heap_put(struct sa_span_heap *h, struct sa_span *s) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (s->state != SA_SPAN_BACKED || s->pages > SA_SPAN_HEAP_RECENT_MAX) {
        sa_span_heap_add_free(h, s);
        return;
    }
    sa_store_relaxed(&s->state, SA_SPAN_MOVING); /* first: nothing joins it */
    sa_span_heap_flush(h);
    h->moving_pages += s->pages;
    h->recent = s;
}

struct sa_span *sa_span_heap_split(struct sa_span_heap *h, struct sa_span *s, size_t pages)
{
    struct sa_span *rest = heap_new_record(h);

    SA_DCHECK(pages > 0 && pages < s->pages);
    if (!rest)
        return NULL;
    rest->start = s->start + (pages << SA_PAGE_SHIFT);
    rest->pages = s->pages - (uint32_t)pages;
    rest->state = s->state;
    rest->idle_since_ns = s->idle_since_ns;
    s->pages = (uint32_t)pages;
    return rest;
}

/* Counts a span of the free pages as one in use. */
static void heap_count_taken(struct sa_span_heap *h, const struct sa_span *s, bool backed)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (backed)
        h->low_water = sa_min(h->low_water, h->backed.pages);
    h->in_use_pages += s->pages;
    h->stats.spans_in_use++;
    sa_size_info_alloc(&h->sizes, s->pages, 0);
}

/* Cuts `pages` pages, aligned, out of a free span of the lists. NULL: there is no record. */
static struct sa_span *heap_carve(struct sa_span_heap *h, struct sa_span *s, size_t pages,
                                  size_t align) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_free_lists *lists = heap_lists(h, s->state);
    size_t head = (sa_align_up(s->start, align << SA_PAGE_SHIFT) - s->start) >> SA_PAGE_SHIFT;
    struct sa_span *rest;

    SA_DCHECK(head + pages <= s->pages);
    sa_free_lists_remove(lists, s);
    if (head) {
        rest = sa_span_heap_split(h, s, head);
        sa_pagemap_set_ends(s);
        sa_free_lists_add(lists, s);
        if (!rest) /* s is whole again */
            return NULL;
        s = rest;
    }
    if (s->pages > pages) {
        rest = sa_span_heap_split(h, s, pages);
        if (rest) { /* else the caller keeps the rest, unless that is longer than the request */
            sa_pagemap_set_ends(rest);
            sa_free_lists_add(lists, rest);
        } else if (s->pages > 2 * pages) {
            sa_span_heap_add_free(h, s);
            return NULL;
        }
    }
    heap_count_taken(h, s, s->state == SA_SPAN_BACKED);
    sa_span_begin(s, s->state == SA_SPAN_RELEASED);
    return s;
}

/* Takes the span freed last, if it is what is wanted. NULL: it is not. */
static struct sa_span *heap_take_recent(struct sa_span_heap *h, size_t pages, size_t align)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_span *s = h->recent;

    if (!s || s->pages != pages || s->start & ((align << SA_PAGE_SHIFT) - 1))
        return NULL;
    h->recent = NULL;
    h->moving_pages -= pages;
    sa_span_begin_mapped(s, false);
    heap_count_taken(h, s, true);
    return s;
}

static struct sa_span *heap_take(struct sa_span_heap *h, size_t pages, size_t align)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_span *s = heap_take_recent(h, pages, align);

    if (SA_LIKELY(s))
        return s;
    sa_span_heap_flush(h);
    s = sa_free_lists_find(&h->backed, pages, align);
    if (!s)
        s = sa_free_lists_find(&h->released, pages, align);
    return s ? heap_carve(h, s, pages, align) : NULL;
}

/* Enters a fresh mapping as released spans, cut at window boundaries (P4). */
static bool heap_add_mapping(struct sa_span_heap *h, uintptr_t start, size_t bytes)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    uintptr_t end = start + bytes;

    while (start < end) {
        uintptr_t cut = sa_align_down(start, SA_HOME_BYTES) + SA_HOME_BYTES;
        struct sa_span *s = heap_new_record(h);

        if (cut > end)
            cut = end;
        if (!s) {
            sa_vm_unmap_space((void *)start, end - start);
            return false;
        }
        s->start = start;
        s->pages = (uint32_t)((cut - start) >> SA_PAGE_SHIFT);
        s->state = SA_SPAN_RELEASED;
        h->mapped_pages += s->pages;
        sa_span_heap_add_free(h, s);
        start = cut;
    }
    return true;
}

/*
 * Maps a span by itself: one of half a window or more, or with an alignment above HEAP_TRIM_ALIGN,
 * gets a mapping of exactly its size. When it is freed, its pages join the others (cut at window
 * boundaries).
 */
SA_RARE static struct sa_span *heap_map_single(struct sa_span_heap *h, size_t pages, size_t align)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t bytes = pages << SA_PAGE_SHIFT;
    void *p = sa_heap_space_map(&h->space, bytes, align << SA_PAGE_SHIFT);
    struct sa_span *s;

    if (!p)
        return NULL;
    s = heap_new_record(h);
    if (!s) {
        sa_vm_unmap_space(p, bytes);
        return NULL;
    }
    s->start = (uintptr_t)p;
    s->pages = (uint32_t)pages;
    sa_span_begin(s, true);
    h->mapped_pages += pages;
    h->in_use_pages += pages;
    h->stats.spans_in_use++;
    h->stats.grown++;
    sa_size_info_alloc(&h->sizes, pages, 0);
    return s;
}

static bool heap_grow(struct sa_span_heap *h, size_t pages, size_t align)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t need = pages + (align > sa_vm.page_step ? align : 0), want;
    uintptr_t p;

    want = sa_min(sa_max(h->mapped_pages / 8, HEAP_GROW_MIN), HEAP_GROW_MAX);
    want = sa_align_up(sa_max(want, need), sa_vm.page_step);
    p = (uintptr_t)sa_heap_space_map(&h->space, want << SA_PAGE_SHIFT,
                                     sa_vm.page_step << SA_PAGE_SHIFT);
    if (!p && want > need) {
        want = sa_align_up(need, sa_vm.page_step);
        p = (uintptr_t)sa_heap_space_map(&h->space, want << SA_PAGE_SHIFT,
                                         sa_vm.page_step << SA_PAGE_SHIFT);
    }
    if (!p)
        return false;
    if (h->space.own_window)
        sa_vm_no_hugepages((void *)p, want << SA_PAGE_SHIFT);
    h->stats.grown++;
    return heap_add_mapping(h, p, want << SA_PAGE_SHIFT);
}

/* Takes back a span that was just handed out and exceeds the hard limit. Nobody has touched it. */
static void heap_undo(struct sa_span_heap *h, struct sa_span *s) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    h->in_use_pages -= s->pages;
    h->stats.spans_in_use--;
    sa_size_info_free(&h->sizes, s->pages, 0);
    sa_store_relaxed(&s->state, s->zeroed ? SA_SPAN_RELEASED : SA_SPAN_BACKED);
    if (sa_same_window(s->start, sa_span_end(s) - 1)) {
        sa_span_heap_add_free(h, s);
        return;
    }
    h->mapped_pages -= s->pages; /* a mapping of its own */
    sa_vm_unmap_space((void *)s->start, sa_span_bytes(s));
    sa_span_heap_drop_record(h, s);
}

/* *ret_over: the bytes by which the request exceeds the hard limit; 0: a failure has another
 * cause. */
static struct sa_span *heap_alloc(struct sa_span_heap *h, size_t pages, size_t align,
                                  size_t *ret_over)
{
    struct sa_span *s;

    *ret_over = 0;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    s = heap_take(h, pages, align);
    if (!s) {
        if (align > HEAP_TRIM_ALIGN || pages >= SA_HOME_PAGES / 2)
            s = heap_map_single(h, pages, align);
        else if (heap_grow(h, pages, align) && !(s = heap_take(h, pages, align)))
            s = heap_map_single(h, pages, align); /* the new mapping was cut at a window boundary */
    }
    if (s && sa_limits_active())
        *ret_over =
            sa_limits_over(h->number, sa_span_heap_used_bytes(h), s->zeroed ? sa_span_bytes(s) : 0);
    if (SA_UNLIKELY(*ret_over != 0)) {
        heap_undo(h, s);
        s = NULL;
    }
    if (s)
        sa_peak_note(h->number, sa_span_heap_used_bytes(h), sa_span_bytes(s));
    else
        sa_span_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return s;
}

struct sa_span *sa_span_heap_alloc(struct sa_span_heap *h, size_t pages, size_t align)
{
    struct sa_span *s;
    size_t over;

    if (pages > UINT32_MAX - sa_vm.page_step)
        return NULL;
    pages = sa_align_up(sa_max(pages, 1), sa_vm.page_step);
    align = sa_max(align, sa_vm.page_step);
    s = heap_alloc(h, pages, align, &over);
    /* The hard limit is reached, or address space has run out. Backed spans that are released
     * coalesce with released neighbours, and together they may be long enough. */
    if (SA_UNLIKELY(!s) && sa_span_heap_release(h, SIZE_MAX / 2))
        s = heap_alloc(h, pages, align, &over);
    return s;
}

SA_RARE bool sa_span_heap_has_backed(struct sa_span_heap *h, size_t pages, size_t align)
{
    bool has;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_flush(h);
    has = sa_free_lists_find(&h->backed, sa_align_up(sa_max(pages, 1), sa_vm.page_step),
                             sa_max(align, sa_vm.page_step)) != NULL;
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return has;
}

/* Free backed pages beyond what is kept for the next demand. */
static size_t heap_surplus(const struct sa_span_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t keep = sa_max(HEAP_EXCESS, h->in_use_pages / 4);

    return h->refused || h->backed.pages <= keep || sa_limits_keep_all() ? 0
                                                                         : h->backed.pages - keep;
}

void sa_span_heap_free(struct sa_span_heap *h, struct sa_span *s, bool zero)
{
    size_t surplus;

    if (s->moved) {
        enum sa_vm_renewal renewal = sa_vm_renew((void *)s->start, sa_span_bytes(s), h->space.name);

        if (renewal == SA_VM_LOST)
            return; /* the span counts as in use for good */
        zero = renewal == SA_VM_ZEROED;
    }
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    SA_DCHECK(s->heap == h->number);
    SA_DCHECK(sa_pagemap_span(s->start) == s); /* P2 */
    SA_DCHECK(h->in_use_pages >= s->pages && h->stats.spans_in_use > 0);
    h->in_use_pages -= s->pages;
    h->stats.spans_in_use--;
    sa_span_emptied(s, false, &h->empty_pages);
    sa_size_info_free(&h->sizes, s->pages, 0);
    if (!zero)
        sa_count_add(&h->freed_bytes, sa_span_bytes(s));
    sa_store_relaxed(&s->state, zero ? SA_SPAN_RELEASED : SA_SPAN_BACKED);
    while (!sa_same_window(s->start, sa_span_end(s) - 1)) { /* P4 */
        uintptr_t cut = sa_align_down(s->start, SA_HOME_BYTES) + SA_HOME_BYTES;
        struct sa_span *rest = sa_span_heap_split(h, s, (cut - s->start) >> SA_PAGE_SHIFT);

        if (!rest) { /* no memory for a record: give up the tail's address space */
            sa_vm_unmap_space((void *)cut, sa_span_end(s) - cut);
            h->mapped_pages -= (sa_span_end(s) - cut) >> SA_PAGE_SHIFT;
            s->pages = (uint32_t)((cut - s->start) >> SA_PAGE_SHIFT);
            break;
        }
        sa_span_heap_add_free(h, s);
        s = rest;
    }
    heap_put(h, s);
    sa_span_heap_note(h);
    surplus = heap_surplus(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    if (SA_UNLIKELY(surplus))
        sa_span_heap_release(h, surplus << SA_PAGE_SHIFT);
}

void sa_span_heap_span_emptied(struct sa_span_heap *h, struct sa_span *s)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_emptied(s, true, &h->empty_pages);
    sa_span_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

/* Takes the `pages` free pages behind a span out of the lists. NULL: there are fewer, or there is
 * no record for the rest. */
static struct sa_span *heap_take_behind(struct sa_span_heap *h, const struct sa_span *s,
                                        size_t pages) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct sa_span *next = sa_pagemap_span(sa_span_end(s)), *rest;
    struct sa_free_lists *lists;

    if (!next || next->heap != h->number || next->start != sa_span_end(s) ||
        (next->state != SA_SPAN_BACKED && next->state != SA_SPAN_RELEASED) || next->pages < pages ||
        !sa_same_window(s->start, next->start))
        return NULL;
    lists = heap_lists(h, next->state);
    sa_free_lists_remove(lists, next);
    if (next->pages == pages)
        return next;
    rest = sa_span_heap_split(h, next, pages);
    if (rest)
        sa_pagemap_set_ends(rest);
    sa_free_lists_add(lists, rest ? rest : next);
    return rest ? next : NULL;
}

SA_RARE bool sa_span_heap_extend(struct sa_span_heap *h, struct sa_span *s, size_t pages)
{
    struct sa_span *next;
    size_t more;

    pages = sa_align_up(pages, sa_vm.page_step);
    if (pages > UINT32_MAX)
        return false;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_flush(h);
    more = pages - s->pages;
    next = sa_limits_active() && !sa_limits_have_room(more << SA_PAGE_SHIFT)
               ? NULL
               : heap_take_behind(h, s, more);
    if (next) {
        if (next->state == SA_SPAN_BACKED)
            h->low_water = sa_min(h->low_water, h->backed.pages);
        sa_size_info_free(&h->sizes, s->pages, 0);
        s->pages += next->pages;
        sa_size_info_alloc(&h->sizes, s->pages, 0);
        h->in_use_pages += next->pages;
        sa_span_heap_drop_record(h, next);
        sa_pagemap_set_ends(s);
        h->stats.extended++;
    }
    sa_span_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return next != NULL;
}

SA_RARE void sa_span_heap_shrink(struct sa_span_heap *h, struct sa_span *s, size_t pages)
{
    struct sa_span *rest;

    pages = sa_align_up(pages, sa_vm.page_step);
    if (pages >= s->pages)
        return;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_size_info_free(&h->sizes, s->pages, 0);
    rest = sa_span_heap_split(h, s, pages);
    sa_size_info_alloc(&h->sizes, s->pages, 0);
    if (rest) {
        sa_size_info_alloc(&h->sizes, rest->pages, 0);
        sa_pagemap_set_ends(s);
        rest->moved = s->moved;
        rest->cls = 0;
        sa_pagemap_set_ends(rest);
        h->stats.spans_in_use++;
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    if (rest)
        sa_span_heap_free(h, rest, false);
}
