/* SPDX-License-Identifier: Apache-2.0 */
/* Spans that change their length in place: sa_page_heap_extend, sa_page_heap_shrink and
 * sa_page_heap_split. */
#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/span_records.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/huge/huge_heap_release.h"
#include "alloc/page_heap/huge/huge_heap_surplus.h"
#include "alloc/page_heap/huge/huge_large_spans.h"
#include "alloc/page_heap/huge/huge_limits.h"
#include "pagemap/pagemap.h"

bool sa_huge_heap_extend(struct sa_huge_heap *h, struct sa_span *s, size_t pages)
{
    size_t hugepage = s->start >> SA_HUGE_SHIFT;
    struct sa_huge_tracker *t;
    struct sa_huge_region *r;
    bool ok = false, limited;
    size_t before = 0;
    uint32_t more;

    pages = sa_align_up(pages, sa_vm.page_step);
    if (pages > UINT32_MAX || pages <= s->pages)
        return pages == s->pages;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    more = (uint32_t)(pages - s->pages);
    limited = sa_limits_active();
    if (limited && !sa_huge_heap_may_grow(h, more)) {
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        return false;
    }
    before = sa_huge_heap_used(h);
    t = sa_hugepage_map_tracker(&h->owners, hugepage);
    r = sa_hugepage_map_region(&h->owners, hugepage);
    if (t)
        ok = sa_huge_filler_extend(&h->filler, t, sa_huge_page_in(s->start) + s->pages, more);
    else if (r)
        ok = sa_huge_region_extend(
            r, (uint32_t)((sa_span_end(s) >> SA_PAGE_SHIFT) - r->hugepage * SA_HUGE_PAGES), more,
            r->eager);
    else
        ok = sa_huge_large_extend(h, s, pages);
    if (ok) {
        sa_size_info_free(&h->sizes, s->pages, sa_huge_slack(s->pages));
        sa_store_relaxed(&s->pages, (uint32_t)pages);
        sa_size_info_alloc(&h->sizes, pages, sa_huge_slack(pages));
        h->in_use_pages += more;
        sa_pagemap_set_ends(s);
        h->stats.extended++;
        if (h->refault_credit)
            sa_huge_heap_refaulted(h, before);
        sa_huge_heap_note(h);
        if (limited) /* there was room before: bytes over the limit stay */
            sa_huge_heap_grew(h, before);
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return ok;
}

SA_RARE void sa_huge_heap_shrink(struct sa_huge_heap *h, struct sa_span *s, size_t pages)
{
    struct sa_huge_moving moving[2] = {{0}};
    size_t hugepage = s->start >> SA_HUGE_SHIFT;
    struct sa_huge_tracker *t;
    struct sa_huge_region *r;
    enum sa_vm_renewal renewal = SA_VM_UNCHANGED;
    bool ok = true, zero;
    uint32_t less;

    pages = sa_align_up(pages, sa_vm.page_step);
    if (pages >= s->pages)
        return;
    less = (uint32_t)(s->pages - pages);
    if (s->moved)
        renewal = sa_vm_renew((void *)(s->start + (pages << SA_PAGE_SHIFT)),
                              (size_t)less << SA_PAGE_SHIFT, h->space.name);
    if (renewal == SA_VM_LOST)
        return; /* the span keeps its length */
    zero = renewal == SA_VM_ZEROED;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_flush(h);
    if (s->moved)
        sa_huge_heap_renewed(h, s->start + (pages << SA_PAGE_SHIFT), less, zero);
    t = sa_hugepage_map_tracker(&h->owners, hugepage);
    r = sa_hugepage_map_region(&h->owners, hugepage);
    if (t)
        sa_huge_filler_trim(&h->filler, t, sa_huge_page_in(s->start) + (uint32_t)pages, less, zero);
    else if (r)
        sa_huge_region_put(
            r, (uint32_t)((s->start >> SA_PAGE_SHIFT) - r->hugepage * SA_HUGE_PAGES + pages), less,
            false, h->now_ns);
    else
        ok = sa_huge_large_shrink(h, s, pages, zero, moving);
    if (ok) {
        sa_size_info_free(&h->sizes, s->pages, sa_huge_slack(s->pages));
        sa_store_relaxed(&s->pages, (uint32_t)pages);
        sa_size_info_alloc(&h->sizes, pages, sa_huge_slack(pages));
        sa_huge_heap_note_height(h);
        h->in_use_pages -= less;
        sa_count_add(&h->freed_bytes, (uint64_t)less << SA_PAGE_SHIFT);
        sa_pagemap_set_ends(s);
        if (s->moved)
            sa_huge_heap_note(h);
    }
    sa_huge_heap_settle(h, moving);
}

/* Spans of the filler only: regions and large spans have no need of it. */
SA_RARE struct sa_span *sa_huge_heap_split(struct sa_huge_heap *h, struct sa_span *s, size_t pages)
{
    struct sa_huge_tracker *t;
    struct sa_span *rest = NULL;

    SA_DCHECK(pages > 0 && pages < s->pages && pages % sa_vm.page_step == 0);
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    t = sa_hugepage_map_tracker(&h->owners, s->start >> SA_HUGE_SHIFT);
    if (t && !s->moved)
        rest = sa_span_record_new(&h->unused_spans, h->number, &h->stats.spans_created);
    if (rest) {
        sa_store_relaxed(&rest->start, s->start + (pages << SA_PAGE_SHIFT));
        sa_store_relaxed(&rest->pages, s->pages - (uint32_t)pages);
        sa_size_info_free(&h->sizes, s->pages, sa_huge_slack(s->pages));
        sa_size_info_alloc(&h->sizes, pages, sa_huge_slack(pages));
        sa_size_info_alloc(&h->sizes, rest->pages, sa_huge_slack(rest->pages));
        sa_store_relaxed(&s->pages, (uint32_t)pages);
        sa_span_begin(rest, false);
        sa_pagemap_set_ends(s);
        sa_huge_filler_joined(&h->filler, t, 1);
        h->stats.spans_in_use++;
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return rest;
}

SA_RARE bool sa_huge_heap_join(struct sa_huge_heap *h, struct sa_span *s, struct sa_span *next)
{
    struct sa_huge_tracker *t;
    bool ok;

    SA_DCHECK(sa_span_end(s) == next->start);
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    t = sa_hugepage_map_tracker(&h->owners, s->start >> SA_HUGE_SHIFT);
    ok =
        t && !s->moved && !next->moved && next->start >> SA_HUGE_SHIFT == s->start >> SA_HUGE_SHIFT;
    if (ok) {
        sa_size_info_free(&h->sizes, s->pages, sa_huge_slack(s->pages));
        sa_size_info_free(&h->sizes, next->pages, sa_huge_slack(next->pages));
        sa_store_relaxed(&s->pages, s->pages + next->pages);
        sa_size_info_alloc(&h->sizes, s->pages, sa_huge_slack(s->pages));
        sa_span_record_drop(&h->unused_spans, next);
        sa_pagemap_set_ends(s);
        sa_huge_filler_joined(&h->filler, t, -1);
        h->stats.spans_in_use--;
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return ok;
}
