/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding leaks; see leaks.h.
 *
 * Holders. The blocks that cannot be reached are a graph, with cycles. Wanted are few samples from
 * which all lost ones can be reached, and which cannot reach each other. First pass: from each lost
 * sample that was not reached yet, all that it reaches is marked; those that it began with are the
 * candidates. None of them is reached from an earlier one. Second pass, anew and in the reverse
 * order: a candidate that was reached by a later one is held by it, and the others hold what they
 * reach first.
 */
#include "tool/leaks/leaks.h"

#include "tool/base/budget.h"
#include "tool/leaks/roots.h"

#include <stdlib.h>
#include <string.h>

#define RESERVE        (256u << 10) /* bytes that are left for what is remembered and reported */
#define REMEMBERED_MAX (256u << 20) /* bytes of the target's memory; faults of more cost time */

static const char no_memory[] = "there is no memory for the search of leaks";

static void sample_reached(void *arg, uint32_t number)
{
    struct sa_leaks *l = arg;

    l->holder[number] = SA_LEAK_NONE;
}

/* Tells the heap where the samples are. */
static void place_samples(struct sa_leaks *l, const struct sa_live_copy *live)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct sa_sample_copy *s = &live->samples[i];
        bool guarded = s->key.guarded == SALLOC_GUARDED_GUARDED;

        if (sa_heap_set_sample(&l->heap, s->start, guarded ? s->key.requested : s->key.allocated,
                               (uint32_t)i))
            l->holder[i] = (uint32_t)i;
        else
            l->holder[i] = SA_LEAK_UNKNOWN;
    }
}

/* Memory for what the target's memory is remembered in: a part of what the command may still
 * take. */
static uint64_t remembered_bytes(unsigned part)
{
    uint64_t bytes = sa_budget_rest() / part;

    return bytes < REMEMBERED_MAX ? bytes : REMEMBERED_MAX;
}

/* What sa_leaks_find_holders takes. */
static uint64_t holders_bytes(const struct sa_leaks *l)
{
    return 2 * l->count * sizeof(*l->holder);
}

bool sa_leaks_open(struct sa_leaks *l, struct sa_reading *r, const struct sa_live_copy *live,
                   struct sa_error *e)
{
    memset(l, 0, sizeof(*l));
    l->scan.pages = -1;
    l->count = live->count;
    l->holder = calloc(l->count + 1, sizeof(*l->holder));
    if (!l->holder || !sa_pages_open(&l->pages, &r->target, remembered_bytes(8), UINT64_MAX) ||
        !sa_scan_open(&l->scan, &r->target))
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
    if (e->code || !sa_heap_open(&l->heap, &l->pages, &r->table, e))
        return false;
    if (!sa_heap_make_samples(&l->heap, l->count) || !sa_mark_open(&l->mark, &l->heap, &l->scan) ||
        sa_budget_rest() < RESERVE + holders_bytes(l)) {
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
        return false;
    }
    place_samples(l, live);
    l->mark.sample = sample_reached;
    l->mark.arg = l;
    return true;
}

bool sa_leaks_find(struct sa_leaks *l, struct sa_reading *r, const struct sa_threads *threads,
                   struct sa_error *e)
{
    /* Now it is known whether all of the heap can be remembered. */
    sa_pages_close(&l->pages);
    if (!sa_pages_open(&l->pages, &r->target, remembered_bytes(2), l->heap.bytes))
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
    if (e->code || !sa_roots_mark(&l->mark, &r->table, threads, e))
        return false;
    for (size_t i = 0; i < l->count; i++) {
        l->unknown += l->holder[i] == SA_LEAK_UNKNOWN;
        l->lost += l->holder[i] < SA_LEAK_UNKNOWN;
    }
    return true;
}

struct holders {
    struct sa_leaks *leaks;
    uint32_t holder; /* that is begun with */
};

static void sample_held(void *arg, uint32_t number)
{
    struct holders *h = arg;

    h->leaks->holder[number] = h->holder;
}

/* One pass: from each of the samples in turn that was not reached before. Those are stored, and
 * their number is returned. */
static size_t pass(struct holders *h, const uint32_t *samples, size_t count, bool reverse,
                   uint32_t *ret)
{
    struct sa_mark *m = &h->leaks->mark;
    const struct sa_heap *heap = m->heap;
    size_t found = 0;

    m->sample = sample_held;
    m->arg = h;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = samples[reverse ? count - 1 - i : i];
        struct sa_heap_span *span = &heap->spans[heap->samples[number].span];
        struct sa_block block = sa_heap_block_at(heap, span, 0);

        if (sa_heap_bit(m->reached, block.bit))
            continue;
        h->holder = number;
        ret[found++] = number;
        sa_mark_block(m, &block);
        sa_mark_run(m);
    }
    return found;
}

bool sa_leaks_find_holders(struct sa_leaks *l, struct sa_error *e)
{
    uint32_t *lost = calloc(l->lost + 1, sizeof(*lost));
    uint32_t *first = calloc(l->lost + 1, sizeof(*first));
    struct holders h = {.leaks = l};
    size_t count = 0;

    if (lost && first) {
        sa_mark_leave_out(&l->mark);
        for (size_t i = 0; i < l->count; i++)
            if (l->holder[i] < SA_LEAK_UNKNOWN)
                lost[count++] = (uint32_t)i;
        count = pass(&h, lost, count, false, first);
        sa_mark_clear(&l->mark);
        pass(&h, first, count, true, lost);
    } else {
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
    }
    free(lost);
    free(first);
    return !e->code;
}

void sa_leaks_forget_heap(struct sa_leaks *l)
{
    sa_mark_close(&l->mark);
    sa_heap_close(&l->heap);
    sa_scan_close(&l->scan);
    sa_pages_close(&l->pages);
}

void sa_leaks_close(struct sa_leaks *l)
{
    sa_leaks_forget_heap(l);
    free(l->holder);
    memset(l, 0, sizeof(*l));
    l->scan.pages = -1;
}
