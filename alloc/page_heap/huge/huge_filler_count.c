/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts one hugepage of the filler for a report: its used and free pages, and its free runs by
 * length and age. Reports do this for every hugepage of the heap, with the heap's lock held for
 * some of them at a time, so it must be fast. See huge_filler.h.
 */
#include "alloc/page_heap/huge/huge_filler.h"

#include "alloc/base/bits.h"

const uint16_t sa_huge_bucket_min[SA_HUGE_BUCKETS] = {
    0,   1,   2,   3,   4,   16,  32,  48,  64,  80,  96,  112,
    128, 144, 160, 176, 192, 208, 224, 240, 252, 253, 254, 255,
};

/* The last bucket whose least value is not above the value. */
static unsigned bucket_of(uint32_t value)
{
    if (value < 4)
        return value;
    if (value >= 252)
        return (unsigned)sa_min(value - 252 + 20, SA_HUGE_BUCKETS - 1);
    return 4 + value / 16;
}

/*
 * Counts runs of set bits; their pages became free at one time. The loop first notes the places
 * where runs begin and end, in turn. Most words have at most two. The loop always writes two
 * entries, because a branch that is hard to predict costs more.
 */
static void count_runs(const uint64_t *bits, struct sa_age_row *rows, struct sa_idle idle)
{
    uint16_t edges[SA_HUGE_PAGES + 2]; /* the last one or two may belong to no run */
    uint64_t before = 0;               /* the bit before this word */
    uint32_t n = 0;

    for (uint32_t at = 0; at < SA_HUGE_PAGES; at += 64) {
        uint64_t word = bits[at / 64], edge = word ^ (word << 1 | before);

        before = word >> 63;
        do {
            for (int i = 0; i < 2; i++) {
                edges[n] = (uint16_t)(at + sa_lowest_bit(edge | 1ull << 63));
                n += edge != 0;
                edge &= edge - 1;
            }
        } while (SA_UNLIKELY(edge));
    }
    edges[n] = SA_HUGE_PAGES;
    for (uint32_t i = 0; i < n; i += 2)
        sa_span_ages_add(rows, (size_t)(edges[i + 1] - edges[i]), idle);
}

/* The free backed and the unbacked runs of one hugepage. */
static void tracker_ages(const struct sa_huge_filler *f, const struct sa_huge_tracker *t,
                         uint32_t backed, struct sa_span_ages *ages)
{
    struct sa_idle idle = sa_span_ages_idle(f->now_ns - t->since_ns);
    bool eager = t->eager && !t->subreleased;
    uint64_t held[SA_HUGE_WORDS];

    for (int i = 0; backed && i < SA_HUGE_WORDS; i++)
        held[i] = ~t->taken[i] & ~(eager ? 0 : t->unbacked[i]);
    if (backed)
        count_runs(held, ages->backed, idle);
    if (t->unbacked_pages && !eager)
        count_runs(t->unbacked, ages->released, idle);
}

void sa_huge_filler_count(const struct sa_huge_filler *f, const struct sa_huge_tracker *t,
                          struct sa_huge_filler_stats *ret, struct sa_span_ages *ages)
{
    enum sa_huge_kind kind = t->set / 2;
    struct sa_huge_histograms *h = &ret->kind[kind];
    uint32_t used = t->range.taken - t->moving_pages, free_pages = SA_HUGE_PAGES - t->range.taken;
    uint32_t backed = sa_huge_tracker_backed(t);

    h->free_pages[bucket_of(free_pages)]++;
    h->longest_free[bucket_of(t->range.longest)]++;
    h->allocations[bucket_of(t->range.allocations ? t->range.allocations - 1 : 0)]++;
    if (t->subreleased) {
        ret->released++;
        ret->partly_released += kind == SA_HUGE_PARTIAL;
        ret->unmapped_in_released += free_pages - backed;
        ret->used_in_released += used;
        ret->used_in_partly_released += kind == SA_HUGE_PARTIAL ? used : 0;
    } else {
        ret->full += free_pages == 0;
        ret->partial += free_pages != 0;
        ret->used_hugepageable += used;
    }
    ret->hugepages++;
    ret->used_pages += used;
    ret->free_pages += backed;
    ret->unmapped_pages += free_pages - backed;
    if (free_pages)
        tracker_ages(f, t, backed, ages);
}
