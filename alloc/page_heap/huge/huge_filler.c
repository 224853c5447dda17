/* SPDX-License-Identifier: Apache-2.0 */
/* Placing spans in hugepages; see huge_filler.h for the rules and the invariants. */
#include "alloc/page_heap/huge/huge_filler.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

/* Hugepages tried that may hold an aligned span, before one is taken that certainly does. */
#define FILLER_TRIES 8

/* A hugepage with fewer free pages than this is a candidate for a collapse. */
#define FILLER_NEARLY_FULL 16

/* A hugepage with at least this many free pages is a candidate again when it fills up. */
#define FILLER_NOT_FULL 64

#define COLLAPSES_MAX 8

void sa_huge_filler_init(struct sa_huge_filler *f)
{
    f->free_min.slot_ns = f->backed_min.slot_ns = SA_FILLER_SLOT_NS;
    for (unsigned i = 0; i < SA_FILLER_SETS; i++)
        f->sets[i].first = &f->lists[i / 2][0][i % 2];
}

static void set_add(struct sa_filler_set *set, struct sa_huge_tracker *t)
{
    unsigned i = t->list;
    struct sa_huge_tracker **first = sa_filler_list(set, i);

    t->prev = NULL;
    t->next = *first;
    if (t->next)
        t->next->prev = t;
    *first = t;
    set->filled[i / 64] |= 1ull << i % 64;
    set->summary |= 1ull << i / 64;
}

static void set_remove(struct sa_filler_set *set, struct sa_huge_tracker *t)
{
    unsigned i = t->list;

    if (t->next)
        t->next->prev = t->prev;
    if (t->prev) {
        t->prev->next = t->next;
    } else if (!(*sa_filler_list(set, i) = t->next)) {
        set->filled[i / 64] &= ~(1ull << i % 64);
        if (!set->filled[i / 64])
            set->summary &= ~(1ull << i / 64);
    }
}

/* The first list from i on that is not empty; SA_FILLER_LISTS: none. */
static unsigned set_next(const struct sa_filler_set *set, unsigned i)
{
    unsigned word = i / 64;
    uint64_t bits, words;

    if (i >= SA_FILLER_LISTS)
        return SA_FILLER_LISTS;
    bits = set->filled[word] & ~0ull << i % 64;
    if (!bits) {
        words = word == 63 ? 0 : set->summary & ~0ull << (word + 1);
        if (!words)
            return SA_FILLER_LISTS;
        word = sa_lowest_bit(words);
        bits = set->filled[word];
    }
    return word * 64 + sa_lowest_bit(bits);
}

static void bucket_add(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    struct sa_huge_tracker **first = &f->buckets[t->subreleased][t->bucket];

    t->free_prev = NULL;
    t->free_next = *first;
    if (*first)
        (*first)->free_prev = t;
    *first = t;
}

static void bucket_remove(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    if (t->free_next)
        t->free_next->free_prev = t->free_prev;
    if (t->free_prev)
        t->free_prev->free_next = t->free_next;
    else
        f->buckets[t->subreleased][t->bucket] = t->free_next;
}

static void queue_remove(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    if (!t->queued)
        return;
    if (t->queue_next)
        t->queue_next->queue_prev = t->queue_prev;
    else
        f->queue_last = t->queue_prev;
    if (t->queue_prev)
        t->queue_prev->queue_next = t->queue_next;
    else
        f->queue = t->queue_next;
    t->queued = false;
    f->queued--;
}

static void queue_add(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    t->queue_next = NULL;
    t->queue_prev = f->queue_last;
    if (f->queue_last)
        f->queue_last->queue_next = t;
    else
        f->queue = t;
    f->queue_last = t;
    t->queued = true;
    f->queued++;
}

static void tracker_queue(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    uint32_t free_pages = SA_HUGE_PAGES - t->range.taken;

    if (free_pages >= FILLER_NOT_FULL) {
        t->collapses = 0;
        queue_remove(f, t);
    } else if (free_pages < FILLER_NEARLY_FULL && !t->queued && (t->subreleased || !t->eager) &&
               t->collapses < COLLAPSES_MAX) {
        queue_add(f, t);
    }
}

struct sa_huge_tracker *sa_huge_filler_next_full(struct sa_huge_filler *f)
{
    struct sa_huge_tracker *t = f->queue;

    if (t) {
        queue_remove(f, t);
        t->collapses++;
    }
    return t;
}

static void tracker_link(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    enum sa_huge_kind kind = sa_huge_tracker_kind(t);

    t->set = (uint8_t)(kind * 2 + t->dense);
    t->list =
        (uint16_t)(t->range.longest * SA_FILLER_CHUNKS + sa_filler_chunk(t->range.allocations));
    t->bucket = (uint8_t)sa_filler_bucket(sa_huge_tracker_backed(t));
    f->kinds[kind]++;
    set_add(&f->sets[t->set], t);
    bucket_add(f, t);
}

static void tracker_unlink(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    f->kinds[t->set / 2]--;
    set_remove(&f->sets[t->set], t);
    bucket_remove(f, t);
}

/* Moves a tracker that has changed to its lists. Not for a change of `subreleased`. */
void sa_huge_filler_place(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    enum sa_huge_kind kind = sa_huge_tracker_kind(t);
    unsigned set = kind * 2 + t->dense;
    unsigned list = t->range.longest * SA_FILLER_CHUNKS + sa_filler_chunk(t->range.allocations);
    unsigned bucket = sa_filler_bucket(sa_huge_tracker_backed(t));

    if (set != t->set || list != t->list) {
        set_remove(&f->sets[t->set], t);
        f->kinds[t->set / 2]--;
        t->set = (uint8_t)set;
        t->list = (uint16_t)list;
        f->kinds[kind]++;
        set_add(&f->sets[set], t);
    }
    if (bucket != t->bucket) {
        bucket_remove(f, t);
        t->bucket = (uint8_t)bucket;
        bucket_add(f, t);
    }
    tracker_queue(f, t);
}

/* A partially released hugepage that is fully backed again is whole. */
static void tracker_mend(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    if (!t->subreleased || t->unbacked_pages || t->moving_pages || t->no_hugepages)
        return;
    tracker_unlink(f, t);
    t->subreleased = false;
    t->collapses = 0;
    tracker_link(f, t);
}

/* Marks free or unbacked pages as taken. True if all of them were unbacked. */
static bool tracker_take_unbacked(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                                  uint32_t n)
{
    uint32_t unbacked = t->unbacked_pages ? sa_bits_count(t->unbacked, at, n) : 0;

    if (unbacked) {
        sa_bits_fill(t->unbacked, at, n, false);
        t->unbacked_pages = (uint16_t)(t->unbacked_pages - unbacked);
        f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] -= unbacked;
    }
    f->taken_pages += n;
    return unbacked == n;
}

void sa_huge_filler_changed(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    tracker_mend(f, t);
    sa_huge_filler_place(f, t);
    sa_huge_filler_note(f);
}

static const struct sa_filler_place nowhere;

static struct sa_filler_place tracker_find(struct sa_huge_tracker *t, uint32_t n, uint32_t align)
{
    struct sa_filler_place place = {.tracker = t, .n = n};
    long at = sa_range_alloc(&t->range, n, align);

    if (at < 0)
        return nowhere;
    place.at = (uint32_t)at;
    place.grows = sa_huge_tracker_grows(t, place.at, n);
    place.zero = t->unbacked_pages && sa_bits_count(t->unbacked, place.at, n) == n;
    return place;
}

SA_RARE void sa_huge_filler_cancel(const struct sa_filler_place *place)
{
    sa_range_put(&place->tracker->range, place->at, place->n, true);
}

void sa_huge_filler_commit(struct sa_huge_filler *f, const struct sa_filler_place *place,
                           bool dense)
{
    struct sa_huge_tracker *t = place->tracker;

    if (t->donated) {
        t->donated = false;
        t->dense = dense;
    }
    tracker_take_unbacked(f, t, place->at, place->n);
    sa_huge_filler_changed(f, t);
}

static struct sa_filler_place filler_search(struct sa_huge_filler *f, unsigned set, uint32_t n,
                                            uint32_t align)
{
    struct sa_filler_set *s = &f->sets[set];
    /* A run this long holds n pages at any alignment, wherever it begins. */
    unsigned sure = (n + align - 1) * SA_FILLER_CHUNKS;
    unsigned i = set_next(s, n * SA_FILLER_CHUNKS);
    int tries = FILLER_TRIES;

    while (i < sa_min(sure, SA_FILLER_LISTS) && tries > 0) {
        for (struct sa_huge_tracker *t = *sa_filler_list(s, i); t && tries-- > 0; t = t->next) {
            struct sa_filler_place place = tracker_find(t, n, align);

            if (place.tracker)
                return place;
        }
        i = set_next(s, i + 1);
    }
    i = set_next(s, sure);
    if (i == SA_FILLER_LISTS)
        return nowhere;
    return tracker_find(*sa_filler_list(s, i), n, align);
}

struct sa_filler_place sa_huge_filler_find(struct sa_huge_filler *f, uint32_t n, uint32_t align,
                                           bool dense)
{
    struct sa_filler_place place = nowhere;

    SA_DCHECK(n > 0 && n <= SA_HUGE_PAGES);
    for (unsigned kind = 0; kind < SA_HUGE_KINDS && !place.tracker; kind++)
        if (kind != SA_HUGE_DONATED)
            place = filler_search(f, kind * 2 + dense, n, align);
        else if (!dense)
            place = filler_search(f, SA_HUGE_DONATED * 2, n, align);
    return place;
}

void sa_huge_filler_prepare(struct sa_huge_tracker *t, size_t hugepage, uint32_t unbacked_from,
                            bool eager)
{
    uint32_t unbacked = SA_HUGE_PAGES - unbacked_from;

    SA_DCHECK(unbacked_from <= SA_HUGE_PAGES);
    *t = (struct sa_huge_tracker){
        .hugepage = hugepage, .unbacked_pages = (uint16_t)unbacked, .eager = eager};
    sa_range_init(&t->range, t->taken, SA_HUGE_PAGES);
    if (unbacked)
        sa_bits_fill(t->unbacked, unbacked_from, unbacked, true);
}

bool sa_huge_filler_add(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t n,
                        bool donated, bool dense)
{
    bool zero;

    SA_DCHECK(t->range.taken == 0 && !t->queued && !t->subreleased);
    t->donated = donated;
    t->dense = dense;
    t->since_ns = f->now_ns;
    f->hugepages++;
    f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] += t->unbacked_pages;
    sa_range_take_first(&t->range, n);
    zero = tracker_take_unbacked(f, t, 0, n);
    tracker_link(f, t);
    tracker_queue(f, t);
    sa_huge_filler_note(f);
    return zero;
}

static void tracker_give(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                         uint32_t n, bool unbacked)
{
    SA_DCHECK(f->taken_pages >= n);
    f->taken_pages -= n;
    if (unbacked) {
        SA_DCHECK(sa_bits_count(t->unbacked, at, n) == 0);
        sa_bits_fill(t->unbacked, at, n, true);
        t->unbacked_pages = (uint16_t)(t->unbacked_pages + n);
        f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] += n;
    }
    t->since_ns = f->now_ns;
    sa_huge_filler_place(f, t);
    sa_huge_filler_note(f);
}

bool sa_huge_filler_put(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                        uint32_t n, bool unbacked)
{
    sa_range_put(&t->range, at, n, true);
    if (t->range.taken == 0) /* no large span has pages here any more */
        t->donated = false;
    tracker_give(f, t, at, n, unbacked);
    return t->range.taken == 0;
}

bool sa_huge_filler_extend(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                           uint32_t n)
{
    if (!sa_range_is_free(&t->range, at, n))
        return false;
    sa_range_take(&t->range, at, n, false);
    tracker_take_unbacked(f, t, at, n);
    sa_huge_filler_changed(f, t);
    return true;
}

SA_RARE void sa_huge_filler_trim(struct sa_huge_filler *f, struct sa_huge_tracker *t, uint32_t at,
                                 uint32_t n, bool unbacked)
{
    sa_range_put(&t->range, at, n, false);
    tracker_give(f, t, at, n, unbacked);
}

SA_RARE void sa_huge_filler_joined(struct sa_huge_filler *f, struct sa_huge_tracker *t, int change)
{
    t->range.allocations += (uint32_t)change;
    sa_huge_filler_place(f, t);
}

SA_RARE void sa_huge_filler_remove(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    SA_DCHECK(t->moving_pages == 0);
    SA_DCHECK(f->hugepages > 0 && f->taken_pages >= t->range.taken);
    queue_remove(f, t);
    tracker_unlink(f, t);
    f->hugepages--;
    f->taken_pages -= t->range.taken;
    f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] -= t->unbacked_pages;
    f->abandoned_pages -= t->abandoned;
    t->abandoned = 0;
    sa_huge_filler_set_tail(f, t, 0);
    sa_huge_filler_note(f);
}

SA_RARE void sa_huge_filler_set_tail(struct sa_huge_filler *f, struct sa_huge_tracker *t,
                                     uint32_t n)
{
    SA_DCHECK(n <= t->range.taken && f->tail_pages >= t->tail_pages);
    f->tail_pages += (size_t)n - t->tail_pages;
    t->tail_pages = (uint16_t)n;
}

SA_RARE void sa_huge_filler_abandon(struct sa_huge_filler *f, struct sa_huge_tracker *t)
{
    SA_DCHECK(t->range.taken > 0);
    f->abandoned_pages += t->tail_pages;
    t->abandoned = (uint16_t)(t->abandoned + t->tail_pages);
    sa_huge_filler_set_tail(f, t, 0);
}

/* Sets `eager` of all trackers of one set. Their buckets may change with the meaning of unbacked
 * pages. */
static void set_eager(struct sa_huge_filler *f, struct sa_filler_set *set, bool eager)
{
    for (unsigned i = set_next(set, 0); i < SA_FILLER_LISTS; i = set_next(set, i + 1))
        for (struct sa_huge_tracker *t = *sa_filler_list(set, i), *next; t; t = next) {
            next = t->next;
            f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] -= t->unbacked_pages;
            t->eager = eager;
            f->unbacked_pages[sa_huge_tracker_unbacked_index(t)] += t->unbacked_pages;
            sa_huge_filler_place(f, t);
        }
}

SA_RARE void sa_huge_filler_set_eager(struct sa_huge_filler *f, bool eager)
{
    if (f->eager == eager)
        return;
    f->eager = eager;
    for (unsigned set = 0; set < SA_FILLER_SETS; set++)
        set_eager(f, &f->sets[set], eager);
    sa_huge_filler_note(f);
}
