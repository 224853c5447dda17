/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collapses hugepages that the kernel did not make at their first touch, because they were not
 * advised then (see thp_policy.c) or because some of their pages were released since. Hugepages
 * that are nearly full and resident are collapsed one by one, with MADV_COLLAPSE. The kernel backs
 * the missing pages, so a hugepage is left alone if more than 20 % of it is not resident (1/32 in
 * regions and large spans).
 *
 * A round considers all candidates once: the filler's queue, then regions, then large spans. A
 * round begins with a tick and continues with each call. A call ends after the hugepage with which
 * it has used up its time. One hugepage takes 0.1 ms, or several ms where a virtual machine's host
 * must find memory first.
 *
 * In the first seconds of a process, only large heaps are collapsed, and those only if they have
 * left no hugepage to small pages (sa_huge_heap_collapses). Programs that end by then, such as
 * compilers, would pay for collapses and gain nothing.
 *
 * The lock (PAGE_HEAP) guards the heap, and is held while a hugepage is picked and its result
 * noted. The kernel works without the lock. The pages may be freed meanwhile: the kernel preserves
 * contents in any case, and at worst one hugepage more is backed than is counted.
 */
#include "alloc/base/bits.h"
#include "alloc/os/clock.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

#define COLLAPSE_MAX 64 /* hugepages in a call */
/* Bytes of a hugepage of a region or a large span that must be resident. */
#define LARGE_MIN (SA_HUGE_BYTES - SA_HUGE_BYTES / 32)
/* Bytes of a hugepage of the filler that must be resident. */
#define SMALL_MIN    (SA_HUGE_BYTES / 100 * SA_HUGE_DENSE_PERCENT)
#define LARGE_PASSES 3 /* passes over a large span */
/* Refusals in a row before a pause; most likely the kernel has no hugepages. */
#define FAILURES_MAX 16
/* The pause: 10 s. */
#define PAUSE_NS 10000000000ull

/* The time that a collapsed hugepage takes counts as 1 / this: LARGE_PARTS in a heap of
 * SA_HUGE_LARGE_HEAP and more; MAKE_UP_PARTS for a hugepage that makes up for one that was left to
 * small pages, as long as a collapse is quick. Where it is slow, the price that the first touch
 * spared the program would have to be paid within seconds. */
#define MAKE_UP_PARTS 12
#define LARGE_PARTS   4

/* A candidate. */
struct candidate {
    size_t hugepage; /* SA_HUGE_NONE: there is none */
    size_t min;      /* bytes that must be resident */
    /* Bytes that the heap had released, since its start, when the candidate was picked. */
    uint64_t released;
};

/* Moves the cursor behind a large span. s->objects counts the passes over the span; a span that was
 * collapsed completely gets no further pass. */
static void leave_large(struct sa_huge_heap *h, struct sa_span *s) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    if (s->objects < LARGE_PASSES)
        s->objects = h->large_failed ? s->objects + 1u : LARGE_PASSES;
    h->large_cursor = s->next;
    h->cursor_hugepage = 0;
    h->large_failed = 0;
}

/* The next hugepage of a large span. SA_HUGE_NONE: the pass has ended, or COLLAPSE_MAX spans had
 * none. */
static size_t next_large(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    for (int tries = 0; tries < COLLAPSE_MAX; tries++) {
        struct sa_span *s = h->large_cursor;

        if (!s) {
            h->large_cursor = h->large_spans;
            h->cursor_hugepage = 0;
            h->large_failed = 0;
            return SA_HUGE_NONE;
        }
        if (s->objects < LARGE_PASSES && h->cursor_hugepage < s->pages / SA_HUGE_PAGES)
            return (s->start >> SA_HUGE_SHIFT) + h->cursor_hugepage++;
        leave_large(h, s);
    }
    return SA_HUGE_NONE;
}

/* The next full hugepage of a region, in the order of addresses. SA_HUGE_NONE: the pass has
 * ended. */
static size_t next_of_region(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t next = SA_HUGE_NONE, from = h->region_cursor;

    for (struct sa_huge_region *r = h->regions; r; r = r->next) {
        size_t at = sa_huge_region_next_full(
            r, (uint32_t)sa_min(from - sa_min(from, r->hugepage), SA_REGION_HUGEPAGES));

        if (at < SA_REGION_HUGEPAGES)
            next = sa_min(next, r->hugepage + at);
    }
    h->region_cursor = next == SA_HUGE_NONE ? 0 : next + 1;
    return next;
}

/* The next candidate of the round. */
static struct candidate next_candidate(struct sa_huge_heap *h) SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    struct candidate c = {SA_HUGE_NONE, SMALL_MIN, h->stats.released_ever_bytes};
    struct sa_collapse_round *round = &h->collapse_round;
    struct sa_huge_tracker *t;

    if (!round->begun) { /* hugepages that are queued meanwhile belong to the next round */
        round->begun = true;
        round->queued = h->filler.queued;
    }
    t = round->queued ? sa_huge_filler_next_full(&h->filler) : NULL;
    if (t) {
        round->queued--;
        c.hugepage = t->hugepage;
        return c;
    }
    round->queued = 0;
    c.min = LARGE_MIN;
    if (!round->regions) {
        c.hugepage = next_of_region(h);
        round->regions = c.hugepage == SA_HUGE_NONE;
    }
    if (c.hugepage == SA_HUGE_NONE && !round->large) {
        c.hugepage = next_large(h);
        round->large = c.hugepage == SA_HUGE_NONE;
    }
    return c;
}

/* SPARSE: too little is resident. REFUSED: by the kernel. */
enum outcome { SPARSE, REFUSED, MADE };

/* Collapses a candidate, without the lock. */
static enum outcome collapse(struct sa_huge_heap *h, const struct candidate *c)
{
    void *p = (void *)(c->hugepage << SA_HUGE_SHIFT);

    if (sa_vm_resident(p, SA_HUGE_BYTES) < c->min)
        return SPARSE;
    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    sa_huge_heap_thp_enable(h, c->hugepage);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return sa_vm_collapse(p, SA_HUGE_BYTES) ? MADE : REFUSED;
}

/* Notes the outcome, for which the kernel took so long. Returns the time that counts. */
static uint64_t collapse_note(struct sa_huge_heap *h, const struct candidate *c,
                              enum outcome outcome, uint64_t ns)
{
    struct sa_huge_tracker *t;
    struct sa_huge_region *r;
    bool made = outcome == MADE;
    unsigned parts;

    sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
    h->collapse.tried++;
    h->collapse.made += made;
    h->collapse.sparse += outcome == SPARSE;
    h->large_failed += !made;
    parts = h->in_use_pages >= SA_HUGE_LARGE_HEAP ? LARGE_PARTS : 1;
    if (made && sa_huge_heap_makes_up(h) && ns < SA_HUGE_SLOW_NS)
        parts = MAKE_UP_PARTS;
    if (made)
        h->collapse.failures = 0;
    else if (outcome == REFUSED && ++h->collapse.failures % FAILURES_MAX == 0)
        h->collapse_pause_ns = h->now_ns + PAUSE_NS;
    /* Pages that were released meanwhile may belong to this hugepage. */
    made = made && h->stats.released_ever_bytes == c->released;
    t = sa_hugepage_map_tracker(&h->owners, c->hugepage);
    if (t && made && !t->moving_pages)
        sa_huge_filler_collapsed(&h->filler, t);
    else if (t) /* objects in caches may not have been used yet */
        sa_huge_filler_place(&h->filler, t);
    r = sa_hugepage_map_region(&h->owners, c->hugepage);
    if (r)
        sa_huge_region_looked(r, (uint32_t)(c->hugepage - r->hugepage), made && !r->moving_pages);
    sa_huge_heap_note(h);
    sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
    return ns / parts;
}

uint64_t sa_huge_heap_collapse(struct sa_huge_heap *h, uint64_t max_ns)
{
    uint64_t start = 0, spent = 0, counted = 0, before;

    for (int i = 0; i < COLLAPSE_MAX; i++) {
        struct candidate c = {.hugepage = SA_HUGE_NONE};
        enum outcome outcome;

        if (sa_limits_active() && !sa_limits_plenty(SA_HUGE_BYTES - SMALL_MIN))
            break;
        sa_lock_acquire(&h->lock, SA_RANK_PAGE_HEAP);
        if (sa_huge_heap_collapses(h))
            c = next_candidate(h);
        sa_lock_release(&h->lock, SA_RANK_PAGE_HEAP);
        if (c.hugepage == SA_HUGE_NONE)
            break;
        if (!start)
            start = sa_clock_thread_cpu_ns();
        before = spent;
        outcome = collapse(h, &c);
        spent = sa_max(sa_clock_thread_cpu_ns() - start, 1);
        counted += collapse_note(h, &c, outcome, spent - before);
        if (spent > max_ns)
            break;
    }
    return spent ? sa_max(counted, 1) : 0;
}
