/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filler against arrays that say of each page whether it is taken, free or clear: what it gives out, which
 * hugepage it chooses, what it releases, and its sums. No system is involved: a release is what the test
 * says it is. (Demand that speaks against a release: test_huge_heap.c.)
 */
#include "alloc/page_heap/huge_filler.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <stdlib.h>
#include <string.h>

#define HUGEPAGES 60
#define SPANS     2000

enum page { FREE, CLEAR, TAKEN };

static struct sa_huge_filler *filler;
static struct sa_huge_tracker trackers[HUGEPAGES];
static struct {
    bool in, whole;
    unsigned char page[SA_HUGE_PAGES];
} model[HUGEPAGES];
static struct {
    unsigned hugepage;
    uint32_t at, n;
} spans[SPANS];
static unsigned count, advised_of_100 = 25;
static uint64_t now_ns;

static void begin(void)
{
    free(filler);
    filler = calloc(1, sizeof(*filler));
    assert_non_null(filler);
    sa_huge_filler_init(filler);
    memset(model, 0, sizeof(model));
    count = 0;
    sa_huge_filler_tick(filler, now_ns = 7000000000);
}

static void set(unsigned hugepage, uint32_t at, uint32_t n, enum page from_most, enum page to)
{
    for (uint32_t i = at; i < at + n; i++) {
        assert_true(from_most == TAKEN ? model[hugepage].page[i] == TAKEN
                                       : model[hugepage].page[i] <= from_most);
        model[hugepage].page[i] = (unsigned char)to;
    }
}

static uint32_t count_of(unsigned hugepage, enum page what)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++)
        n += model[hugepage].page[i] == what;
    return n;
}

static void check(void)
{
    struct sa_huge_filler_stats *s = calloc(1, sizeof(*s));
    struct sa_span_ages *ages = calloc(1, sizeof(*ages));
    size_t in = 0, pages[3] = {0}, kinds = 0, histogram = 0, free_pages = 0;

    for (unsigned h = 0; h < HUGEPAGES; h++) {
        uint32_t n[3];

        if (!model[h].in)
            continue;
        in++;
        for (int what = FREE; what <= TAKEN; what++)
            pages[what] += n[what] = count_of(h, what);
        assert_int_equal(trackers[h].range.taken, n[TAKEN]);
        assert_int_equal(trackers[h].clear_pages, n[CLEAR]);
        assert_int_equal(sa_huge_tracker_backed(&trackers[h]),
                         model[h].whole && !trackers[h].broken ? n[FREE] + n[CLEAR] : n[FREE]);
        free_pages += sa_huge_tracker_backed(&trackers[h]);
    }
    sa_huge_filler_report(filler, s);
    for (unsigned h = 0; h < HUGEPAGES; h++)
        if (model[h].in)
            sa_huge_filler_count(filler, &trackers[h], s, ages);
    assert_int_equal(s->hugepages, in);
    assert_int_equal(s->used_pages, pages[TAKEN]);
    assert_int_equal(s->free_pages, free_pages);
    assert_int_equal(s->free_pages + s->unmapped_pages, pages[FREE] + pages[CLEAR]);
    assert_int_equal(s->used_hugepageable + s->used_in_released, pages[TAKEN]);
    assert_int_equal(s->full + s->partial + s->released, in);
    assert_int_equal(s->unmapped_in_released, filler->clear_pages[1]);
    assert_true(s->unmapped_in_released + s->used_in_released <= s->released * SA_HUGE_PAGES);
    for (int kind = 0; kind < SA_HUGE_KINDS; kind++) {
        kinds += filler->kinds[kind];
        for (int b = 0; b < SA_HUGE_BUCKETS; b++)
            histogram += s->kind[kind].free_pages[b];
    }
    assert_int_equal(kinds, in);
    assert_int_equal(histogram, in);
    assert_true(s->min_free_pages <= s->free_pages + s->unmapped_pages);
    assert_true(s->peak_demand.used_pages >= s->used_pages);
    free(s);
    free(ages);
}

static unsigned chunk(uint32_t allocations)
{
    static const uint32_t most[] = {64, 32, 16, 8, 4, 2, 1};

    for (unsigned i = 7; i > 0; i--)
        if (allocations <= most[i - 1])
            return i;
    return 0;
}

/* Where a tracker stands in the order in which hugepages are filled; UINT_MAX: it cannot serve. */
static unsigned rank(const struct sa_huge_tracker *t, uint32_t n, bool dense)
{
    unsigned kind;

    if (t->range.longest < n || (t->donated ? dense : t->dense != dense))
        return UINT32_MAX;
    kind = !t->broken ? t->donated : sa_huge_tracker_backed(t) ? 2 : 3;
    return kind * 10000 + t->range.longest * 8 + chunk(t->range.allocations);
}

static void remember(unsigned hugepage, uint32_t at, uint32_t n)
{
    assert_true(count < SPANS);
    spans[count].hugepage = hugepage;
    spans[count].at = at;
    spans[count++].n = n;
}

/* A hugepage more, with one span on it. */
static void add(struct test_random *r, uint32_t n, bool donated, bool dense)
{
    uint32_t clear_from = test_random_below(r, 2) ? 0 : SA_HUGE_PAGES;
    bool advised = test_random_below(r, 100) < advised_of_100;
    unsigned h = 0;

    while (h < HUGEPAGES && model[h].in)
        h++;
    if (h == HUGEPAGES)
        return;
    sa_huge_filler_prepare(&trackers[h], h, clear_from, advised || filler->backs_whole);
    model[h].in = true;
    model[h].whole = advised || filler->backs_whole;
    memset(model[h].page, clear_from ? FREE : CLEAR, SA_HUGE_PAGES);
    assert_int_equal(sa_huge_filler_add(filler, &trackers[h], n, donated, dense), clear_from == 0);
    set(h, 0, n, CLEAR, TAKEN);
    remember(h, 0, n);
}

static void random_alloc(struct test_random *r)
{
    uint32_t n = (uint32_t)test_random_size(r, test_random_below(r, 4) ? 5 : 8);
    uint32_t align = test_random_below(r, 3) ? 1 : 1u << test_random_below(r, 8);
    bool dense = test_random_below(r, 2), all_clear = true;
    unsigned best = UINT32_MAX, before[HUGEPAGES];
    struct sa_filler_place place;

    for (unsigned h = 0; h < HUGEPAGES; h++) {
        before[h] = model[h].in ? rank(&trackers[h], n, dense) : UINT32_MAX;
        best = before[h] < best ? before[h] : best;
    }
    place = sa_huge_filler_find(filler, n, align, dense);
    if (!place.tracker) {
        assert_true(align > 1 || best == UINT32_MAX);
        add(r, n, !dense && test_random_below(r, 4) == 0, dense);
        return;
    }
    if (align == 1)
        assert_int_equal(before[place.tracker->hugepage], best);
    assert_int_equal(place.at % align, 0);
    for (uint32_t i = 0; i < n; i++)
        all_clear = all_clear && model[place.tracker->hugepage].page[place.at + i] == CLEAR;
    assert_int_equal(place.zero, all_clear);
    sa_huge_filler_commit(filler, &place, dense);
    set((unsigned)place.tracker->hugepage, place.at, n, CLEAR, TAKEN);
    remember((unsigned)place.tracker->hugepage, place.at, n);
}

static void drop(unsigned h)
{
    assert_int_equal(count_of(h, TAKEN), 0);
    sa_huge_filler_remove(filler, &trackers[h]);
    model[h].in = false;
}

static void random_free(struct test_random *r)
{
    unsigned i = (unsigned)test_random_below(r, count), h = spans[i].hugepage;
    bool clear = test_random_below(r, 5) == 0;

    set(h, spans[i].at, spans[i].n, TAKEN, clear ? CLEAR : FREE);
    if (sa_huge_filler_put(filler, &trackers[h], spans[i].at, spans[i].n, clear))
        drop(h);
    else
        assert_int_not_equal(count_of(h, TAKEN), 0);
    spans[i] = spans[--count];
}

static void random_resize(struct test_random *r)
{
    unsigned i = (unsigned)test_random_below(r, count), h = spans[i].hugepage;
    uint32_t end = spans[i].at + spans[i].n, more = 1 + (uint32_t)test_random_below(r, 20);

    if (test_random_below(r, 2)) {
        bool room = end + more <= SA_HUGE_PAGES;

        for (uint32_t k = end; room && k < end + more; k++)
            room = model[h].page[k] != TAKEN;
        assert_int_equal(sa_huge_filler_extend(filler, &trackers[h], end, more), room);
        if (room) {
            set(h, end, more, CLEAR, TAKEN);
            spans[i].n += more;
        }
    } else if (spans[i].n > more) {
        sa_huge_filler_trim(filler, &trackers[h], end - more, more, false);
        set(h, end - more, more, TAKEN, FREE);
        spans[i].n -= more;
    }
}

static void random_release(struct test_random *r)
{
    struct sa_filler_release release;
    uint32_t least = (uint32_t)test_random_below(r, 100), most[2] = {0, 0};
    uint64_t done[SA_HUGE_WORDS] = {0};
    bool ok = true, whole;
    unsigned h;

    for (h = 0; h < HUGEPAGES; h++)
        if (model[h].in) {
            uint32_t backed = sa_huge_tracker_backed(&trackers[h]);
            uint32_t *m = &most[trackers[h].broken];

            *m = backed > *m ? backed : *m;
        }
    if (!sa_huge_filler_begin(filler, least, &release)) {
        assert_false(most[1]);
        /* The best one is found to within its bucket. */
        assert_true(most[0] < least + 8);
        return;
    }
    h = (unsigned)release.tracker->hugepage;
    whole = model[h].whole && !trackers[h].broken;
    assert_int_equal(trackers[h].broken, most[1] > 0);
    assert_int_equal(release.pages / 8, most[trackers[h].broken] / 8);
    if (!trackers[h].broken)
        assert_true(release.pages >= least);
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++) {
        bool in = release.mask[i / 64] >> i % 64 & 1;
        bool backed = model[h].page[i] == FREE || (whole && model[h].page[i] == CLEAR);

        assert_int_equal(in, backed);
        if (!in)
            continue;
        model[h].page[i] = FREE;
        ok = ok && test_random_below(r, 40) != 0;
        if (ok) {
            done[i / 64] |= 1ull << i % 64;
            model[h].page[i] = CLEAR;
        }
    }
    /* While pages move, others are freed and none of those is given out. */
    if (count && test_random_below(r, 2)) {
        unsigned i = (unsigned)test_random_below(r, count);

        if (spans[i].hugepage != h) {
            bool empty;

            set(spans[i].hugepage, spans[i].at, spans[i].n, TAKEN, FREE);
            empty = sa_huge_filler_put(filler, &trackers[spans[i].hugepage], spans[i].at,
                                       spans[i].n, false);
            if (empty)
                drop(spans[i].hugepage);
            spans[i] = spans[--count];
        }
    }
    if (sa_huge_filler_end(filler, &release, done))
        drop(h);
}

static void random_run(uint64_t seed, bool whole)
{
    struct test_random r = {seed};

    begin();
    sa_huge_filler_set_whole(filler, whole);
    for (int step = 0; step < 30000; step++) {
        bool grow = step / 2000 % 2 == 0;

        if (test_random_below(&r, 20) == 0)
            random_release(&r);
        else if (count && test_random_below(&r, 6) == 0)
            random_resize(&r);
        else if (count && (count == SPANS || test_random_below(&r, 100) < (grow ? 35u : 60u)))
            random_free(&r);
        else
            random_alloc(&r);
        if (step % 500 == 0)
            sa_huge_filler_tick(filler, now_ns += test_random_below(&r, 20) * 1000000000);
        if (step == 15000) { /* found out late */
            sa_huge_filler_set_whole(filler, !whole);
            for (unsigned h = 0; h < HUGEPAGES; h++)
                model[h].whole = !whole;
        }
        if (step % 20 == 0)
            check();
    }
}

static void test_filler_agrees_with_arrays(void **state)
{
    (void)state;
    random_run(0xf111e4, false);
}

static void test_filler_agrees_where_hugepages_come_whole(void **state)
{
    (void)state;
    random_run(0xf111e5, true);
}

/* Nearly empty hugepages become empty: of many, half freed at random, fewer are used for what comes next. */
static void test_filler_packs_densely(void **state)
{
    struct test_random r = {0x9ac};
    size_t hugepages;

    (void)state;
    begin();
    for (int i = 0; i < 1500; i++) {
        struct sa_filler_place p = sa_huge_filler_find(filler, 8, 1, false);

        if (!p.tracker) {
            add(&r, 8, false, false);
        } else {
            sa_huge_filler_commit(filler, &p, false);
            set((unsigned)p.tracker->hugepage, p.at, 8, CLEAR, TAKEN);
            remember((unsigned)p.tracker->hugepage, p.at, 8);
        }
    }
    hugepages = filler->hugepages;
    assert_int_equal(hugepages, (1500 + 31) / 32);
    for (int i = 0; i < 20000; i++) { /* steady state at half the size */
        if (count > 750)
            random_free(&r);
        if (count <= 750) {
            struct sa_filler_place p = sa_huge_filler_find(filler, 8, 1, false);

            assert_non_null(p.tracker);
            sa_huge_filler_commit(filler, &p, false);
            set((unsigned)p.tracker->hugepage, p.at, 8, CLEAR, TAKEN);
            remember((unsigned)p.tracker->hugepage, p.at, 8);
        }
    }
    /* 750 of them fill 23.4 hugepages: it gets along with few more, where first fit would keep all. */
    assert_in_range(filler->hugepages, 24, 36);
}

/* The queue of hugepages to be collapsed: full ones, each a few times, and not those that the kernel backs as a
 * whole, but for broken ones. */
static void test_filler_offers_full_hugepages(void **state)
{
    struct test_random r = {1};
    struct sa_filler_release release;
    uint64_t done[SA_HUGE_WORDS];

    (void)state;
    begin();
    advised_of_100 = 0;
    add(&r, 200, false, false);
    assert_null(sa_huge_filler_next_full(filler));
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 200, 50));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[0]);
    assert_null(sa_huge_filler_next_full(filler));
    /* It is offered again after it was not so full. */
    sa_huge_filler_trim(filler, &trackers[0], 100, 150, false);
    assert_null(sa_huge_filler_next_full(filler));
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 100, 156));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[0]);
    /* Broken: the same, and with memory everywhere it is not broken any more. */
    sa_huge_filler_trim(filler, &trackers[0], 100, 156, false);
    assert_true(sa_huge_filler_begin(filler, 1, &release));
    memcpy(done, release.mask, sizeof(done));
    assert_false(sa_huge_filler_end(filler, &release, done));
    assert_true(trackers[0].broken);
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 100, 130));
    assert_null(sa_huge_filler_next_full(filler));
    assert_true(sa_huge_filler_extend(filler, &trackers[0], 230, 20));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[0]);
    assert_true(trackers[0].broken);
    sa_huge_filler_made_whole(filler, &trackers[0]);
    assert_false(trackers[0].broken);
    assert_int_equal(sa_huge_tracker_backed(&trackers[0]), 6);
    assert_int_equal(sa_huge_filler_backed(filler), 6);
    /* One that the kernel makes is never asked for, unless it was broken. */
    advised_of_100 = 100;
    add(&r, 256, false, false);
    assert_null(sa_huge_filler_next_full(filler));
    sa_huge_filler_trim(filler, &trackers[1], 100, 156, false);
    assert_true(sa_huge_filler_begin(filler, 50, &release));
    memcpy(done, release.mask, sizeof(done));
    assert_false(sa_huge_filler_end(filler, &release, done));
    assert_true(sa_huge_filler_extend(filler, &trackers[1], 100, 150));
    assert_ptr_equal(sa_huge_filler_next_full(filler), &trackers[1]);
    advised_of_100 = 25;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filler_agrees_with_arrays),
        cmocka_unit_test(test_filler_agrees_where_hugepages_come_whole),
        cmocka_unit_test(test_filler_packs_densely),
        cmocka_unit_test(test_filler_offers_full_hugepages),
    };

    return cmocka_run_group_tests_name("huge_filler", tests, NULL, NULL);
}
