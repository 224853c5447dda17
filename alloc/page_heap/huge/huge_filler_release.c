/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Release in the filler: free pages of partly taken hugepages, and the metrics. See huge_filler.h.
 */
#include "alloc/page_heap/huge/huge_filler.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

static struct sa_huge_moment filler_moment(const struct sa_huge_filler *f)
{
    struct sa_huge_moment m;

    m.used_pages = f->taken_pages - f->moving_pages;
    m.free_pages = sa_huge_filler_backed(f);
    m.unmapped_pages = f->hugepages * SA_HUGE_PAGES - f->taken_pages - m.free_pages;
    for (int kind = 0; kind < SA_HUGE_KINDS; kind++)
        m.hugepages[kind] = f->kinds[kind];
    return m;
}

void sa_huge_filler_note(struct sa_huge_filler *f)
{
    size_t demand = f->taken_pages - f->moving_pages, backed = sa_huge_filler_backed(f);
    struct sa_huge_moment *peak;
    size_t hugepages;

    f->low_water = sa_min(f->low_water, backed);
    sa_sliding_window_add(&f->free_min, f->hugepages * SA_HUGE_PAGES - f->taken_pages);
    sa_sliding_window_add(&f->backed_min, backed);
    peak = &f->slots[f->free_min.at].peak_demand;
    if (demand > peak->used_pages)
        *peak = filler_moment(f);
    peak = &f->slots[f->free_min.at].peak_hugepages;
    hugepages = peak->hugepages[0] + peak->hugepages[1] + peak->hugepages[2] + peak->hugepages[3];
    if (f->hugepages > hugepages)
        *peak = filler_moment(f);
}

void sa_huge_filler_tick(struct sa_huge_filler *f, uint64_t now_ns)
{
    uint64_t before = f->free_min.slot, passed;
    struct sa_huge_moment now = filler_moment(f);

    f->now_ns = now_ns;
    sa_sliding_window_advance(&f->free_min, now_ns);
    sa_sliding_window_advance(&f->backed_min, now_ns);
    passed = before ? sa_min(f->free_min.slot - before, SA_SLIDING_WINDOW_SLOTS) : 1;
    for (uint64_t i = 0; i < passed; i++) {
        struct sa_filler_slot *slot =
            &f->slots[(f->free_min.at + SA_SLIDING_WINDOW_SLOTS - i) % SA_SLIDING_WINDOW_SLOTS];

        slot->peak_demand = slot->peak_hugepages = now;
    }
}

static struct sa_huge_tracker *filler_candidate(struct sa_huge_filler *f,
                                                struct sa_filler_least least)
{
    for (int subreleased = 1; subreleased >= 0; subreleased--)
        for (unsigned b = SA_FILLER_BUCKETS - 1; b > 0; b--) {
            struct sa_huge_tracker *t = f->buckets[subreleased][b];

            if (!t)
                continue;
            if (sa_huge_tracker_backed(t) >= (subreleased ? least.subreleased : least.other))
                return t;
            break;
        }
    return NULL;
}

bool sa_huge_filler_can_release(struct sa_huge_filler *f, struct sa_filler_least least)
{
    return filler_candidate(f, least) != NULL;
}

/* Extends the mask, the free pages to release, by the unbacked pages of the same runs. Returns how
 * many these are. */
SA_RARE static uint32_t tracker_take_gaps(struct sa_huge_tracker *t, uint64_t *mask)
{
    uint32_t end, gaps = 0;

    for (uint32_t at = sa_bits_next(t->taken, SA_HUGE_PAGES, 0, false); at < SA_HUGE_PAGES;
         at = sa_bits_next(t->taken, SA_HUGE_PAGES, end, false)) {
        end = sa_bits_next(t->taken, SA_HUGE_PAGES, at, true);
        if (sa_bits_next(mask, SA_HUGE_PAGES, at, true) >= end)
            continue;
        gaps += sa_bits_count(t->unbacked, at, end - at);
        sa_bits_fill(mask, at, end - at, true);
        sa_bits_fill(t->unbacked, at, end - at, false);
    }
    return gaps;
}

SA_RARE bool sa_huge_filler_begin(struct sa_huge_filler *f, struct sa_filler_least least,
                                  struct sa_filler_release *r)
{
    struct sa_huge_tracker *t = filler_candidate(f, least);
    uint32_t gaps;
    bool eager;

    if (!t)
        return false;
    eager = t->eager && !t->subreleased;
    r->tracker = t;
    r->pages = sa_huge_tracker_backed(t);
    SA_DCHECK(r->pages > 0);
    for (int i = 0; i < SA_HUGE_WORDS; i++)
        r->backed[i] = r->mask[i] = ~t->taken[i] & ~(eager ? 0 : t->unbacked[i]);
    gaps = tracker_take_gaps(t, r->mask);
    f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] -= gaps;
    t->unbacked_pages = (uint16_t)(t->unbacked_pages - gaps);
    SA_DCHECK(!eager || t->unbacked_pages == 0);
    r->pages += eager ? 0 : gaps; /* of an eager hugepage, they are among the pages to release */
    for (int i = 0; i < SA_HUGE_WORDS; i++)
        t->taken[i] |= r->mask[i];
    t->range.taken += r->pages;
    t->moving_pages = (uint16_t)(t->moving_pages + r->pages);
    f->taken_pages += r->pages;
    f->moving_pages += r->pages;
    sa_range_take(&t->range, 0, 0, false); /* finds the longest run anew */
    sa_huge_filler_place(f, t);
    sa_huge_filler_note(f);
    return true;
}

SA_RARE void sa_huge_filler_collapsed(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] -= t->unbacked_pages;
    t->unbacked_pages = 0;
    for (int i = 0; i < SA_HUGE_WORDS; i++)
        t->unbacked[i] = 0;
    t->eager = true;
    sa_huge_filler_changed(f, t);
}

/* Notes that the hugepage is partially released from now on. */
static void tracker_note_subrelease(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    struct sa_huge_tracker **first;
    unsigned index = sa_huge_tracker_unbacked_index(t);

    if (t->subreleased)
        return;
    /* From the bucket of other hugepages to that of subreleased ones. */
    if (t->free_next)
        t->free_next->free_prev = t->free_prev;
    if (t->free_prev)
        t->free_prev->free_next = t->free_next;
    else
        f->buckets[0][t->bucket] = t->free_next;
    t->subreleased = true;
    f->unbacked_pages[index] -= t->unbacked_pages;
    f->unbacked_pages[1] += t->unbacked_pages;
    f->subreleased_hugepages++;
    first = &f->buckets[1][t->bucket];
    t->free_prev = NULL;
    t->free_next = *first;
    if (*first)
        (*first)->free_prev = t;
    *first = t;
}

SA_RARE uint32_t sa_huge_filler_end(struct sa_huge_filler *f, struct sa_filler_release *r,
                                    const uint64_t *done, bool *ret_empty)
{
    struct sa_huge_tracker *t = r->tracker;
    uint32_t released = 0, unbacked = 0;

    SA_DCHECK(t->moving_pages >= r->pages && f->moving_pages >= r->pages);
    for (int i = 0; i < SA_HUGE_WORDS; i++) {
        SA_DCHECK((r->mask[i] & ~t->taken[i]) == 0);
        SA_DCHECK((done[i] & ~r->mask[i]) == 0);
        t->taken[i] &= ~r->mask[i];
        t->unbacked[i] |= done[i] | (r->mask[i] & ~r->backed[i]);
        released += (uint32_t)__builtin_popcountll(done[i] & r->backed[i]);
        unbacked += (uint32_t)__builtin_popcountll((done[i] | ~r->backed[i]) & r->mask[i]);
    }
    t->range.taken -= r->pages;
    t->moving_pages = (uint16_t)(t->moving_pages - r->pages);
    f->taken_pages -= r->pages;
    f->moving_pages -= r->pages;
    t->unbacked_pages = (uint16_t)(t->unbacked_pages + unbacked);
    f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] += unbacked;
    f->subreleased_pages += released;
    if (released && t->range.taken)
        tracker_note_subrelease(f, t);
    t->clean = t->range.taken == 0 && t->unbacked_pages == SA_HUGE_PAGES;
    sa_range_take(&t->range, 0, 0, false);
    sa_huge_filler_place(f, t);
    sa_huge_filler_note(f);
    *ret_empty = t->range.taken == 0;
    return released;
}

static size_t moment_hugepages(const struct sa_huge_moment *m)
{
    return m->hugepages[0] + m->hugepages[1] + m->hugepages[2] + m->hugepages[3];
}

/* The latest one of equal peaks. */
static void report_peaks(const struct sa_huge_filler *f, struct sa_huge_filler_stats *ret)
{
    ret->peak_demand = ret->peak_hugepages = filler_moment(f);
    for (size_t i = 0; i < SA_SLIDING_WINDOW_SLOTS; i++) {
        const struct sa_filler_slot *slot =
            &f->slots[(f->free_min.at + SA_SLIDING_WINDOW_SLOTS - i) % SA_SLIDING_WINDOW_SLOTS];

        if (slot->peak_demand.used_pages > ret->peak_demand.used_pages)
            ret->peak_demand = slot->peak_demand;
        if (moment_hugepages(&slot->peak_hugepages) > moment_hugepages(&ret->peak_hugepages))
            ret->peak_hugepages = slot->peak_hugepages;
    }
}

SA_RARE void sa_huge_filler_report(const struct sa_huge_filler *f, struct sa_huge_filler_stats *ret)
{
    ret->subreleased_pages = f->subreleased_pages;
    ret->subreleased_hugepages = f->subreleased_hugepages;
    ret->min_free_pages = sa_sliding_window_min(&f->free_min, SA_FILLER_REPORT_NS);
    ret->min_free_backed_pages = sa_sliding_window_min(&f->backed_min, SA_FILLER_REPORT_NS);
    report_peaks(f, ret);
}
