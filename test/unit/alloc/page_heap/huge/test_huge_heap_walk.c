/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counting a large heap for a report: the lock is let go of after so many hugepages, ranges or a
 * region; what is counted is exact when nothing changes meanwhile; and when the heap changes at
 * every pause, nothing is counted twice, and what stays as it is is counted.
 *
 * On the system of memory that exists only in tests: see test_huge_heap.c.
 */
#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

#include <stdlib.h>
#include <string.h>

#define HEAP      (&sa_page_heap_ordinary)
#define HUGEPAGES 3000
#define SPANS     (4 * HUGEPAGES)
#define STEP_MAX  128

static struct sa_huge_stats *stats, *model;
static struct sa_span *stays[SPANS], *moves[SPANS];
static size_t stays_count, moves_count;
static unsigned pauses, trackers_held;
static size_t runs; /* free ones that were checked */
static bool busy;

void __real_sa_lock_yield(struct sa_lock *lock, enum sa_lock_rank rank);
void __wrap_sa_lock_yield(struct sa_lock *lock, enum sa_lock_rank rank);
void __real_sa_huge_filler_count(const struct sa_huge_filler *f, const struct sa_huge_tracker *t,
                                 struct sa_huge_filler_stats *ret, struct sa_span_ages *ages);
void __wrap_sa_huge_filler_count(const struct sa_huge_filler *f, const struct sa_huge_tracker *t,
                                 struct sa_huge_filler_stats *ret, struct sa_span_ages *ages);

static struct sa_span *take(size_t pages)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, pages, 1, SA_PAGES_ANY);

    assert_non_null(s);
    fake_own(s->start, s->pages, true);
    return s;
}

static void give(struct sa_span *s)
{
    fake_own(s->start, s->pages, false);
    sa_page_heap_free(HEAP, s, false);
}

/* Of the spans that may go about a tenth do, and others come. */
static void change(void)
{
    for (size_t i = 0; i < moves_count; i += 1 + test_random_below(&fake.random, 20)) {
        give(moves[i]);
        moves[i] =
            take(test_random_below(&fake.random, 20) ? 1 + test_random_below(&fake.random, 120)
                                                     : 1 + test_random_below(&fake.random, 1000));
    }
}

/* No analysis: it knows the names of the real function only. */
void __wrap_sa_lock_yield(struct sa_lock *lock, enum sa_lock_rank rank) SA_NO_THREAD_SAFETY_ANALYSIS
{
    assert_int_not_equal(lock->word, 0);
    pauses++;
    trackers_held = 0;
    if (!busy) {
        __real_sa_lock_yield(lock, rank);
        return;
    }
    sa_lock_release(lock, rank);
    change();
    sa_lock_acquire(lock, rank);
}

enum { TAKEN, HELD, CLEAR };

static int state_of(const struct sa_huge_tracker *t, uint32_t page)
{
    bool unbacked = t->unbacked[page / 64] >> page % 64 & 1 && (t->subreleased || !t->eager);

    return t->taken[page / 64] >> page % 64 & 1 ? TAKEN : unbacked ? CLEAR : HELD;
}

/* The runs of one hugepage, page by page. */
static void check_runs(const struct sa_huge_filler *f, const struct sa_huge_tracker *t)
{
    static struct sa_huge_filler_stats ignored;
    static struct sa_span_ages ages;
    size_t spans[2][SA_AGE_LENGTHS] = {{0}};
    uint32_t end;

    for (uint32_t at = 0; at < SA_HUGE_PAGES; at = end) {
        int state = state_of(t, at);

        for (end = at + 1; end < SA_HUGE_PAGES && state_of(t, end) == state;)
            end++;
        if (state != TAKEN)
            spans[state == CLEAR][end - at < SA_AGE_LENGTHS ? end - at : 0]++;
        runs += state != TAKEN;
    }
    memset(&ages, 0, sizeof(ages));
    __real_sa_huge_filler_count(f, t, &ignored, &ages);
    for (int i = 0; i < SA_AGE_LENGTHS; i++) {
        assert_int_equal(ages.backed[i].spans, spans[0][i]);
        assert_int_equal(ages.released[i].spans, spans[1][i]);
    }
}

void __wrap_sa_huge_filler_count(const struct sa_huge_filler *f, const struct sa_huge_tracker *t,
                                 struct sa_huge_filler_stats *ret, struct sa_span_ages *ages)
{
    assert_true(++trackers_held <= STEP_MAX);
    __real_sa_huge_filler_count(f, t, ret, ages);
    if (!busy)
        check_runs(f, t);
}

/* Hugepages that two spans share, which stay in part; some with many short ones; regions; ranges of
 * free hugepages. */
static void fill(uint64_t seed)
{
    fake.random.state = seed;
    for (int i = 0; i < 5000; i++) {
        struct sa_span *s = take(1 + test_random_below(&fake.random, 4));

        if (test_random_below(&fake.random, 2))
            stays[stays_count++] = s;
        else
            moves[moves_count++] = s;
    }
    for (int i = 0; i < 200; i++)
        stays[stays_count++] = take(270);
    for (int i = 0; i < HUGEPAGES; i++) {
        stays[stays_count++] = take(65 + test_random_below(&fake.random, 60));
        moves[moves_count++] = take(65 + test_random_below(&fake.random, 60));
        if (i % 8 == 0)
            moves[moves_count++] = take(SA_HUGE_PAGES * (1 + test_random_below(&fake.random, 3)));
    }
    sa_page_heap_tick(HEAP, 1000000000);
    for (size_t i = 0; i < moves_count; i++)
        if (test_random_below(&fake.random, 3) == 0) {
            give(moves[i]);
            moves[i] = moves[--moves_count];
        }
    sa_page_heap_release(HEAP, 64ul << 20);
    sa_page_heap_tick(HEAP, 40000000000);
}

static unsigned bucket(uint32_t value)
{
    unsigned b = 0;

    while (b + 1 < SA_HUGE_BUCKETS && sa_huge_bucket_min[b + 1] <= value)
        b++;
    return b;
}

/* What a census of the filler must find, from its lists. */
static void count_filler(void)
{
    const struct sa_huge_filler *f = &HEAP->huge->filler;
    struct sa_huge_filler_stats *m = &model->filler;

    memset(model, 0, sizeof(*model));
    for (int subreleased = 0; subreleased < 2; subreleased++)
        for (unsigned b = 0; b < SA_FILLER_BUCKETS; b++)
            for (struct sa_huge_tracker *t = f->buckets[subreleased][b]; t; t = t->free_next) {
                struct sa_huge_histograms *h = &m->kind[t->set / 2];
                uint32_t free_pages = SA_HUGE_PAGES - t->range.taken;

                h->free_pages[bucket(free_pages)]++;
                h->longest_free[bucket(t->range.longest)]++;
                h->allocations[bucket((uint32_t)sa_max(t->range.allocations, 1) - 1)]++;
                m->hugepages++;
                m->used_pages += t->range.taken;
                m->released += (size_t)subreleased;
                m->full += !subreleased && !free_pages;
                m->partial += !subreleased && free_pages;
            }
}

static void count_quiet(void *unused)
{
    size_t pages[2] = {0, 0}, spans = 0;

    (void)unused;
    fill(91);
    pauses = trackers_held = 0;
    sa_page_heap_huge_stats(HEAP, stats);
    count_filler();
    assert_true(stats->filler.hugepages > 2000);
    assert_true(pauses >= stats->filler.hugepages / STEP_MAX + stats->region.regions);
    assert_true(stats->region.regions >= 1);
    assert_true(stats->filler.released > 10);
    assert_int_equal(stats->filler.hugepages, model->filler.hugepages);
    assert_int_equal(stats->filler.hugepages, HEAP->huge->filler.hugepages);
    assert_int_equal(stats->filler.used_pages, model->filler.used_pages);
    assert_int_equal(stats->filler.full, model->filler.full);
    assert_int_equal(stats->filler.partial, model->filler.partial);
    assert_int_equal(stats->filler.released, model->filler.released);
    assert_memory_equal(stats->filler.kind, model->filler.kind, sizeof(model->filler.kind));
    for (int i = 0; i < SA_AGE_LENGTHS; i++) {
        pages[0] += stats->ages.backed[i].pages;
        pages[1] += stats->ages.released[i].pages;
        spans += stats->ages.backed[i].spans + stats->ages.released[i].spans;
    }
    assert_int_equal(pages[0] << SA_PAGE_SHIFT, stats->heap.backed_bytes);
    assert_int_equal(pages[1] << SA_PAGE_SHIFT, stats->heap.released_bytes);
    assert_true(spans > 1000);
    assert_true(runs > stats->filler.hugepages - stats->filler.full + 1000);
}

static void test_census_is_exact_at_rest(void **state)
{
    (void)state;
    test_child_passes(count_quiet, NULL);
}

/* Pages of hugepages that the filler holds because of spans that stay. */
static void count_busy(void *unused)
{
    size_t stay_pages = 0, all;

    (void)unused;
    fill(92);
    for (size_t i = 0; i < stays_count; i++)
        stay_pages += stays[i]->pages;
    for (int round = 0; round < 20; round++) {
        busy = true;
        pauses = trackers_held = 0;
        sa_page_heap_huge_stats(HEAP, stats);
        busy = false;
        all = (HEAP->huge->end - HEAP->huge->first) * SA_HUGE_PAGES;
        assert_true(pauses >= stays_count / 3 / STEP_MAX);
        assert_true(stats->filler.used_pages + stats->region.used_pages >= stay_pages);
        assert_true(stats->filler.used_pages + stats->filler.free_pages +
                        stats->filler.unmapped_pages + stats->region.used_pages +
                        stats->region.free_pages + stats->region.unmapped_pages <=
                    all);
        assert_int_equal(stats->filler.used_pages + stats->filler.free_pages +
                             stats->filler.unmapped_pages,
                         stats->filler.hugepages * SA_HUGE_PAGES);
        assert_int_equal(stats->filler.full + stats->filler.partial + stats->filler.released,
                         stats->filler.hugepages);
        page_heap_check();
    }
}

static void test_census_of_a_changing_heap_counts_what_stays(void **state)
{
    (void)state;
    test_child_passes(count_busy, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_census_is_exact_at_rest),
        cmocka_unit_test(test_census_of_a_changing_heap_counts_what_stays),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    stats = calloc(1, sizeof(*stats));
    model = calloc(1, sizeof(*model));
    return cmocka_run_group_tests_name("huge_census", tests, NULL, NULL);
}
