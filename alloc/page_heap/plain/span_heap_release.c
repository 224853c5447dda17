/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the plain page heap releases runs of free pages, by amount and by time; and its metrics.
 * Invariants and locking are those of span_heap.c. System calls run without the lock, on spans
 * marked as moving.
 */
#include "alloc/page_heap/plain/span_heap.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "pagemap/pagemap.h"

#include <string.h>

#define HEAP_KEEP        (1 * MIB_PAGES) /* a tick leaves this much */
#define HEAP_RELEASE_RUN (4 * MIB_PAGES) /* one system call gives back at most this much */
#define HEAP_UNMAP_MIN   MIB_PAGES

SA_RARE size_t sa_span_heap_release(struct sa_span_heap *h, size_t bytes)
{
    size_t want = sa_align_up(sa_align_up(bytes, SA_PAGE_BYTES) >> SA_PAGE_SHIFT, sa_vm.page_step);
    size_t done = 0;
    bool ok = true;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_flush(h);
    while (ok && done < want) {
        struct sa_span *s = sa_free_lists_longest(&h->backed), *rest;
        size_t run = sa_min(want - done, HEAP_RELEASE_RUN);

        if (!s)
            break;
        sa_free_lists_remove(&h->backed, s);
        if (s->pages > run) {
            rest = sa_span_heap_split(h, s, run);
            if (rest) {
                sa_pagemap_set_ends(rest);
                sa_free_lists_add(&h->backed, rest);
            }
        }
        sa_pagemap_set_ends(s);
        sa_store_relaxed(&s->state, SA_SPAN_MOVING);
        h->moving_pages += s->pages;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);

        ok = sa_vm_release((void *)s->start, sa_span_bytes(s));

        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->moving_pages -= s->pages;
        if (ok) {
            done += s->pages;
            h->stats.released_ever_bytes += sa_span_bytes(s);
        }
        h->refused = !ok;
        sa_store_relaxed(&s->state, ok ? SA_SPAN_RELEASED : SA_SPAN_BACKED);
        sa_span_heap_add_free(h, s);
        h->low_water = sa_min(h->low_water, h->backed.pages);
    }
    sa_span_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return done << SA_PAGE_SHIFT;
}

/* Unmaps released spans of at least `least` pages, the longest first, up to `bytes` in all. */
SA_RARE static void heap_unmap(struct sa_span_heap *h, size_t min, size_t bytes)
{
    size_t want = bytes >> SA_PAGE_SHIFT, done = 0;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    while (done < want) {
        struct sa_span *s = sa_free_lists_longest(&h->released), *rest;

        if (!s || s->pages < min)
            break;
        sa_free_lists_remove(&h->released, s);
        if (s->pages > want - done) {
            rest = sa_span_heap_split(h, s, sa_align_up(want - done, sa_vm.page_step));
            if (rest) {
                sa_pagemap_set_ends(rest);
                sa_free_lists_add(&h->released, rest);
            }
        }
        sa_store_relaxed(&s->state, SA_SPAN_MOVING);
        h->moving_pages += s->pages;
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);

        sa_vm_unmap_space((void *)s->start, sa_span_bytes(s));

        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        h->moving_pages -= s->pages;
        h->mapped_pages -= s->pages;
        sa_span_heap_note(h); /* meanwhile another thread may have counted it as used */
        done += s->pages;
        sa_span_heap_drop_record(h, s);
    }
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

void sa_span_heap_unmap(struct sa_span_heap *h, size_t bytes)
{
    heap_unmap(h, 1, bytes);
}

bool sa_span_heap_tick(struct sa_span_heap *h, uint64_t now_ns)
{
    uint64_t elapsed;
    size_t idle, left;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_flush(h);
    elapsed = sa_min(now_ns - h->now_ns, SA_RELEASE_NS);
    h->now_ns = now_ns;
    idle = sa_min(h->low_water, h->backed.pages);
    idle = idle > HEAP_KEEP ? idle - HEAP_KEEP : 0;
    h->low_water = h->backed.pages;
    SA_VALIDATE(sa_span_heap_note(h));
    SA_VALIDATE(sa_span_heap_validate(h));
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    idle = (size_t)((double)idle * ((double)elapsed / (double)SA_RELEASE_NS));
    if (idle && !sa_limits_keep_all())
        sa_span_heap_release(h, idle << SA_PAGE_SHIFT);
    /* After a failed mapping, address space is limited, and others need it too (stacks of threads,
     * files): the tick unmaps long released runs. Otherwise the heap keeps them, which costs
     * nothing. */
    if (SA_UNLIKELY(sa_load_relaxed(&sa_vm.map_failures)))
        heap_unmap(h, HEAP_UNMAP_MIN, SIZE_MAX);
    left = sa_load_relaxed(&h->backed.pages);
    return left > HEAP_KEEP + HEAP_KEEP / 4 && !sa_limits_keep_all();
}

SA_RARE void sa_span_heap_stats(struct sa_span_heap *h, struct sa_page_heap_stats *ret)
{
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_flush(h);
    *ret = h->stats;
    ret->mapped_bytes = h->mapped_pages << SA_PAGE_SHIFT;
    ret->in_use_bytes = h->in_use_pages << SA_PAGE_SHIFT;
    ret->empty_bytes = h->empty_pages << SA_PAGE_SHIFT;
    ret->backed_bytes = h->backed.pages << SA_PAGE_SHIFT;
    ret->released_bytes = h->released.pages << SA_PAGE_SHIFT;
    ret->moving_bytes = h->moving_pages << SA_PAGE_SHIFT;
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}

/* Spans counted while the lock is held once. */
#define WALK_STEP 256

/* Counts free spans of one state. The lock is held, but yielded every WALK_STEP spans. */
SA_RARE static void heap_walk(struct sa_span_heap *h, struct sa_free_lists *lists, bool released,
                              struct sa_span_ages *ages) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    const struct sa_span *s;
    struct sa_free_walk walk;

    sa_free_lists_begin(lists, &walk);
    for (unsigned n = 1; (s = sa_free_lists_step(lists, &walk)) != NULL; n++) {
        sa_span_ages_add(released ? ages->released : ages->backed, s->pages,
                         sa_span_ages_idle(h->now_ns - s->idle_since_ns));
        if (n % WALK_STEP == 0)
            sa_lock_yield(&h->lock, SA_RANK_PAGE_HEAP);
    }
    sa_free_lists_end(lists, &walk);
}

SA_RARE void sa_span_heap_walk(struct sa_span_heap *h, struct sa_size_info *sizes,
                               struct sa_span_ages *ages)
{
    memset(ages, 0, sizeof(*ages));
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_span_heap_flush(h);
    *sizes = h->sizes;
    heap_walk(h, &h->backed, false, ages);
    heap_walk(h, &h->released, true, ages);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
}
