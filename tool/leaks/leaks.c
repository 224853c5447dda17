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

#include "tool/leaks/roots.h"

#include <stdlib.h>
#include <string.h>

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

bool sa_leaks_find(struct sa_leaks *l, struct sa_reading *r, const struct sa_live_copy *live,
                   const struct sa_threads *threads, struct sa_error *e)
{
    memset(l, 0, sizeof(*l));
    l->scan.pages = -1;
    l->count = live->count;
    l->holder = calloc(l->count + 1, sizeof(*l->holder));
    if (!l->holder || !sa_pages_open(&l->pages, &r->target) || !sa_scan_open(&l->scan, &r->target))
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
    if (e->code || !sa_heap_open(&l->heap, &l->pages, &r->table, e))
        return false;
    place_samples(l, live);
    if (!sa_mark_open(&l->mark, &l->heap, &l->scan))
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
    l->mark.sample = sample_reached;
    l->mark.arg = l;
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
    struct sa_mark mark;
    const uint32_t *span_of; /* [sample]: the number of its span */
    uint32_t holder;         /* that is begun with */
};

static void sample_held(void *arg, uint32_t number)
{
    struct holders *h = arg;

    h->leaks->holder[number] = h->holder;
}

/* One pass: from each of the samples in turn that was not reached before. Those are stored. */
static bool pass(struct holders *h, const uint32_t *samples, size_t count, bool reverse,
                 uint32_t *ret, size_t *ret_count)
{
    struct sa_leaks *l = h->leaks;

    *ret_count = 0;
    if (!sa_mark_open(&h->mark, &l->heap, &l->scan))
        return false;
    h->mark.outside = l->mark.reached;
    h->mark.sample = sample_held;
    h->mark.arg = h;
    for (size_t i = 0; i < count; i++) {
        uint32_t number = samples[reverse ? count - 1 - i : i];
        const struct sa_heap_span *span = &l->heap.spans[h->span_of[number]];
        struct sa_block block = {span->first, span->size, span->bit, span};

        if (sa_heap_bit(h->mark.reached, span->bit))
            continue;
        h->holder = number;
        ret[(*ret_count)++] = number;
        if (!sa_mark_block(&h->mark, &block) || !sa_mark_run(&h->mark))
            return false;
    }
    return true;
}

bool sa_leaks_find_holders(struct sa_leaks *l, struct sa_error *e)
{
    uint32_t *lost = calloc(l->lost + 1, sizeof(*lost));
    uint32_t *first = calloc(l->lost + 1, sizeof(*first));
    uint32_t *span_of = calloc(l->count + 1, sizeof(*span_of));
    struct holders h = {.leaks = l, .span_of = span_of};
    size_t count = 0, candidates = 0;
    bool fine = lost && first && span_of;

    for (size_t i = 0; fine && i < l->heap.count; i++)
        if (l->heap.spans[i].sample)
            span_of[l->heap.spans[i].sample - 1] = (uint32_t)i;
    for (size_t i = 0; fine && i < l->count; i++)
        if (l->holder[i] < SA_LEAK_UNKNOWN)
            lost[count++] = (uint32_t)i;
    fine = fine && pass(&h, lost, count, false, first, &candidates);
    sa_mark_close(&h.mark);
    fine = fine && pass(&h, first, candidates, true, lost, &count);
    sa_mark_close(&h.mark);
    free(lost);
    free(first);
    free(span_of);
    if (!fine)
        sa_error_set(e, SA_EXIT_FAILED, no_memory);
    return fine;
}

void sa_leaks_close(struct sa_leaks *l)
{
    sa_mark_close(&l->mark);
    sa_heap_close(&l->heap);
    sa_scan_close(&l->scan);
    sa_pages_close(&l->pages);
    free(l->holder);
    memset(l, 0, sizeof(*l));
}
