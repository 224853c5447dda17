/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the invariants of the filler, F1 to F3 of huge_filler.h, and bitmaps of pages. Debug
 * builds run it at ticks.
 */
#include "alloc/base/fatal.h"
#include "alloc/page_heap/huge/huge_filler.h"

/* The sums over all trackers. */
struct sums {
    size_t hugepages, kinds[SA_HUGE_KINDS];
    size_t taken, moving, unbacked[3], tails, abandoned;
};

void sa_range_validate(const struct sa_range_tracker *t)
{
    uint32_t longest = 0, end;

    for (uint32_t at = sa_bits_next(t->words, t->pages, 0, false); at < t->pages;
         at = sa_bits_next(t->words, t->pages, end, false)) {
        end = sa_bits_next(t->words, t->pages, at, true);
        longest = (uint32_t)sa_max(longest, end - at);
    }
    SA_CHECK(t->longest == longest);
    SA_CHECK(t->taken == sa_bits_count(t->words, 0, t->pages));
    SA_CHECK(t->allocations <= t->taken);
}

/* F1 of one tracker, and what its flags say of it. */
static void tracker_validate(const struct sa_huge_tracker *t)
{
    sa_range_validate(&t->range);
    SA_CHECK(t->unbacked_pages == sa_bits_count(t->unbacked, 0, SA_HUGE_PAGES));
    for (int i = 0; i < SA_HUGE_WORDS; i++)
        SA_CHECK((t->unbacked[i] & t->taken[i]) == 0);
    SA_CHECK(t->moving_pages <= t->range.taken);
    SA_CHECK(t->tail_pages <= t->range.taken);
    SA_CHECK(t->abandoned <= SA_HUGE_PAGES);
    if (t->donated)
        SA_CHECK(t->range.allocations == 1);
}

static void tracker_add(struct sums *sums, const struct sa_huge_tracker *t)
{
    sums->hugepages++;
    sums->kinds[t->set / 2]++;
    sums->taken += t->range.taken;
    sums->moving += t->moving_pages;
    sums->unbacked[sa_huge_tracker_unbacked_index(t)] += t->unbacked_pages; /* F3 */
    sums->tails += t->tail_pages;
    sums->abandoned += t->abandoned;
}

/* F2, the lists: adds up the trackers of one of them. */
static void list_validate(const struct sa_huge_filler *f, unsigned set, unsigned i,
                          struct sums *sums)
{
    const struct sa_filler_set *s = &f->sets[set];
    const struct sa_huge_tracker *first = *sa_filler_list(s, i), *prev = NULL;

    SA_CHECK((s->filled[i / 64] >> i % 64 & 1) == (first != NULL));
    for (const struct sa_huge_tracker *t = first; t; prev = t, t = t->next) {
        SA_CHECK(t->prev == prev);
        SA_CHECK(t->set == set);
        SA_CHECK(t->list == i);
        SA_CHECK(t->dense == set % 2);
        SA_CHECK(sa_huge_tracker_kind(t) == set / 2);
        SA_CHECK(i == t->range.longest * SA_FILLER_CHUNKS + sa_filler_chunk(t->range.allocations));
        tracker_validate(t);
        tracker_add(sums, t);
    }
}

static void lists_validate(const struct sa_huge_filler *f, struct sums *sums)
{
    for (unsigned set = 0; set < SA_FILLER_SETS; set++) {
        const struct sa_filler_set *s = &f->sets[set];

        for (unsigned i = 0; i < SA_FILLER_LISTS; i++)
            list_validate(f, set, i, sums);
        for (unsigned word = 0; word < SA_FILLER_WORDS; word++)
            SA_CHECK((s->summary >> word & 1) == (s->filled[word] != 0));
    }
}

/* F2, the buckets: the trackers in all of them. */
static size_t buckets_validate(const struct sa_huge_filler *f)
{
    size_t trackers = 0;

    for (int subreleased = 0; subreleased < 2; subreleased++)
        for (unsigned b = 0; b < SA_FILLER_BUCKETS; b++) {
            const struct sa_huge_tracker *prev = NULL;

            for (const struct sa_huge_tracker *t = f->buckets[subreleased][b]; t;
                 t = t->free_next) {
                SA_CHECK(t->free_prev == prev);
                SA_CHECK(t->subreleased == subreleased);
                SA_CHECK(b == sa_filler_bucket(sa_huge_tracker_backed(t)));
                prev = t;
                trackers++;
            }
        }
    return trackers;
}

/* The candidates for a collapse. */
static void queue_validate(const struct sa_huge_filler *f)
{
    const struct sa_huge_tracker *prev = NULL;
    size_t queued = 0;

    for (const struct sa_huge_tracker *t = f->queue; t; prev = t, t = t->queue_next) {
        SA_CHECK(t->queued);
        SA_CHECK(t->queue_prev == prev);
        queued++;
    }
    SA_CHECK(f->queue_last == prev);
    SA_CHECK(f->queued == queued);
}

void sa_huge_filler_validate(const struct sa_huge_filler *f)
{
    struct sums sums = {0};

    lists_validate(f, &sums);
    SA_CHECK(buckets_validate(f) == sums.hugepages);
    queue_validate(f);
    SA_CHECK(f->hugepages == sums.hugepages);
    for (int kind = 0; kind < SA_HUGE_KINDS; kind++)
        SA_CHECK(f->kinds[kind] == sums.kinds[kind]);
    SA_CHECK(f->taken_pages == sums.taken);
    SA_CHECK(f->moving_pages == sums.moving);
    for (int i = 0; i < 3; i++)
        SA_CHECK(f->unbacked_pages[i] == sums.unbacked[i]);
    SA_CHECK(f->tail_pages == sums.tails);
    SA_CHECK(f->abandoned_pages == sums.abandoned);
}
