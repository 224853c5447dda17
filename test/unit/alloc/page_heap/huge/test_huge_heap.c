/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hugepage-aware heap on a system that exists only here: mappings are numbers, and for each
 * page the test knows whether it is mapped, holds memory, is zero, and which span has it. So
 * gibibytes cost nothing, any call can fail, and the rules can be checked that a real system hides:
 * what is released or unmapped belongs to no span, what is said to be zero is, no page is lost, and
 * free memory is not more than the heap counts.
 */
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/huge_program.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

#include <stdlib.h>
#include <string.h>

#define HEAP (&sa_page_heap_ordinary)
#define MIB  (1ul << 20)
#define STEP (16 * MIB >> SA_PAGE_SHIFT) /* pages that a tick or a step releases */

struct run {
    const char *mode;
    uint64_t seed;
    int steps, check_every;
    size_t map, release, renew, loses, advise;
    enum sa_hugepages choice;
    bool locked; /* the kernel gives locked pages back with their mapping only */
};

static void random_run(void *arg)
{
    const struct run *run = arg;

    program_begin(run->mode, run->seed);
    sa_page_heap_set_hugepages(HEAP, run->choice);
    fake.advise_fails = run->advise;
    sa_vm.keeps_locked = run->locked;
    for (int i = 0; i < run->steps; i++) {
        if (i % 1000 == 500) {
            fake.map_fails = run->map;
            fake.release_fails = run->release;
            fake.renew_fails = run->renew;
            fake.renew_loses = run->loses;
        } else if (i % 1000 == 0) {
            fake.map_fails = fake.release_fails = fake.renew_fails = fake.renew_loses = 0;
        }
        program_step();
        if (i % run->check_every == 0)
            page_heap_check();
        if (i % (run->check_every * 50) == 0 && !run->loses) {
            program_check_memory();
            fake_check_advice();
        }
    }
    if (!run->loses)
        program_end();
}

static void test_heap_keeps_its_rules(void **state)
{
    static struct run runs[] = {
        {"always [madvise] never\n", 1, 40000, 10, 0, 0, 0, 0},
        {"always madvise [never]\n", 2, 20000, 10, 0, 0, 0, 0},
        {"[always] madvise never\n", 3, 40000, 10, 0, 0, 0, 0},
        {"always [madvise] never\n", 4, 20000, 10, .choice = SA_HUGEPAGES_OFF},
        {"[always] madvise never\n", 5, 20000, 10, .choice = SA_HUGEPAGES_OFF},
        {"always [madvise] never\n", 6, 20000, 10, .choice = SA_HUGEPAGES_ALWAYS},
        {"always madvise [never]\n", 7, 5000, 10, .choice = SA_HUGEPAGES_ALWAYS},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(runs); i++)
        test_child_passes(random_run, &runs[i]);
}

static void test_heap_keeps_its_rules_when_calls_fail(void **state)
{
    static struct run runs[] = {
        {"always [madvise] never\n", 11, 30000, 10, 30, 30, 0, 0},
        {"always [madvise] never\n", 12, 20000, 10, 100, 100, 0, 0},
        {"[always] madvise never\n", 13, 30000, 10, 30, 30, 0, 0},
        {"always [madvise] never\n", 14, 20000, 10, 10, 10, 50, 0},
        {"[always] madvise never\n", 15, 20000, 10, 30, 100, 100, 0},
        {"always [madvise] never\n", 16, 20000, 10, 10, 10, 0, 50},
        {"always [madvise] never\n", 15, 20000, 10, 10, 10, .advise = 30},
        {"[always] madvise never\n", 16, 20000, 10, 10, 10, .advise = 30},
        {"always [madvise] never\n", 17, 5000, 10, .advise = 100},
        {"always [madvise] never\n", 18, 20000, 10, 10, 100, 10, .locked = true},
        {"[always] madvise never\n", 19, 20000, 10, 0, 50, .locked = true},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(runs); i++)
        test_child_passes(random_run, &runs[i]);
}

/* Many spans of 2.1 MiB: once their slack is large, they are packed into a region. */
static void use_regions(void *unused)
{
    struct sa_huge_stats *stats = calloc(1, sizeof(*stats));
    size_t mapped;

    (void)unused;
    fake.random.state = 77;
    for (int i = 0; i < 200; i++)
        assert_non_null(program_take(270, 1, false));
    sa_page_heap_huge_stats(HEAP, stats);
    assert_int_equal(stats->region.regions, 1);
    assert_true(stats->region.used_pages >= 100 * 270);
    assert_true(stats->sizes.slack_pages >= 64 * MIB >> SA_PAGE_SHIFT);
    page_heap_check();
    mapped = stats->heap.mapped_bytes;
    for (int i = 0; i < 20000; i++) {
        if (program.count > 1 && test_random_below(&fake.random, 2))
            program_give((unsigned)test_random_below(&fake.random, program.count));
        else
            program_take(130 + test_random_below(&fake.random, 500), 1, false);
        if (i % 4 == 0)
            program_resize((unsigned)test_random_below(&fake.random, program.count));
        if (i % 50 == 0) {
            sa_page_heap_tick(HEAP, program.now_ns += 100000000);
            sa_page_heap_collapse(HEAP, UINT64_MAX);
        }
        if (i % 100 == 0)
            page_heap_check();
    }
    sa_page_heap_huge_stats(HEAP, stats);
    assert_true(stats->region.regions >= 1);
    assert_true(stats->heap.mapped_bytes >= mapped);
    program_end();
    sa_page_heap_huge_stats(HEAP, stats);
    assert_int_equal(stats->region.regions, 0); /* given up when empty */
}

static void test_heap_packs_awkward_spans_into_regions(void **state)
{
    (void)state;
    test_child_passes(use_regions, NULL);
}

/* What is unmapped is mapped again: three times the window's length, and no end of it. */
static void wear_out(void *unused)
{
    const size_t n = SA_HOME_PAGES / 64;

    (void)unused;
    for (size_t mapped = 0; mapped < 3 * SA_HOME_PAGES; mapped += n) {
        struct sa_span *s = sa_page_heap_alloc(HEAP, n, 1, SA_PAGES_ANY);

        assert_non_null(s);
        sa_page_heap_free(HEAP, s, true);
        sa_page_heap_unmap(HEAP, PTRDIFF_MAX);
    }
    page_heap_check();
}

static void test_heap_wears_no_addresses_out(void **state)
{
    (void)state;
    test_child_passes(wear_out, NULL);
}

/*
 * A hundred spans of 32 KiB to 4 MiB, replaced at random: little of what is freed goes to the
 * system, to be found again at once. What does not fit into partly used hugepages is free all the
 * time, about as much as may be.
 */
static void replace_large(void *unused)
{
    enum { SPANS = 100, STEPS = 20000 };
    static struct sa_span *spans[SPANS];
    struct test_random r = {0x1a4};
    struct sa_page_heap_stats stats;
    uint64_t freed = 0, released = 0;

    (void)unused;
    sa_page_heap_tick(HEAP, program.now_ns);
    for (int i = 0; i < 2 * STEPS; i++) {
        size_t k = test_random_below(&r, SPANS), n = (size_t)4 << test_random_below(&r, 7);

        if (i == STEPS) {
            sa_page_heap_stats(HEAP, &stats);
            released = stats.released_ever_bytes;
            freed = 0;
        }
        if (spans[k]) {
            freed += sa_span_bytes(spans[k]);
            sa_page_heap_free(HEAP, spans[k], false);
        }
        spans[k] = sa_page_heap_alloc(HEAP, n + test_random_below(&r, n), 1, SA_PAGES_ANY);
        assert_non_null(spans[k]);
        if (i % 2000 == 0)
            sa_page_heap_tick(HEAP, program.now_ns += 20000000);
    }
    sa_page_heap_stats(HEAP, &stats);
    released = stats.released_ever_bytes - released;
    if (released > freed / 25)
        fail_msg("of %lu bytes freed %lu were released", (unsigned long)freed,
                 (unsigned long)released);
}

static void test_heap_keeps_what_is_needed_again(void **state)
{
    (void)state;
    test_child_passes(replace_large, NULL);
}

/* Steps until none has more to release; each releases little. Returns the pages that they released.
 */
static size_t step_all(struct sa_huge_heap *h, size_t *ret_steps)
{
    size_t first = sa_huge_heap_backed(h), before = first;

    *ret_steps = 0;
    for (bool more = true; more; ++*ret_steps) {
        more = sa_page_heap_step(HEAP);
        assert_in_range(before - sa_huge_heap_backed(h), 0, STEP + SA_HUGE_PAGES);
        before = sa_huge_heap_backed(h);
    }
    return first - before;
}

#define HOLES 8192 /* spans of PAGES, every other one freed */
#define PAGES 64
static struct sa_span *holes[HOLES];

/* Takes every step'th of the first n spans, and frees every other one. */
static void use_holes(int n, int step)
{
    for (int i = 0; i < n; i += step)
        holes[i] = sa_page_heap_alloc(HEAP, PAGES, 1, SA_PAGES_ANY);
    for (int i = 0; i < n; i += 2)
        sa_page_heap_free(HEAP, holes[i], false);
}

/* A tick releases a little of what is due, steps the rest; what they leave, the next tick; and
 * nothing that was used meanwhile. */
static void release_in_steps(void *unused)
{
    struct sa_huge_heap *h = HEAP->huge;
    size_t idle, due, done, steps;

    (void)unused;
    use_holes(HOLES, 1);
    sa_page_heap_tick(HEAP, program.now_ns += SA_RELEASE_NS);
    step_all(h, &steps);

    idle = sa_huge_heap_backed(h);
    assert_true(idle > 20 * STEP);
    due = (idle - (MIB >> SA_PAGE_SHIFT)) / 4;
    sa_page_heap_tick(HEAP, program.now_ns += SA_RELEASE_NS / 4);
    done = idle - sa_huge_heap_backed(h);
    assert_in_range(done, STEP, STEP + SA_HUGE_PAGES);
    done += step_all(h, &steps);
    assert_in_range(done, due, due + SA_HUGE_PAGES);
    assert_in_range(steps, due / (STEP + SA_HUGE_PAGES), due / STEP + 1);
    assert_false(sa_page_heap_step(HEAP));

    idle = sa_huge_heap_backed(h);
    due = (idle - (MIB >> SA_PAGE_SHIFT)) / 4;
    sa_page_heap_tick(HEAP, program.now_ns += SA_RELEASE_NS / 4);
    sa_page_heap_tick(HEAP, program.now_ns); /* no time has passed: no more is due */
    assert_in_range(idle - sa_huge_heap_backed(h), due, due + SA_HUGE_PAGES);

    sa_page_heap_tick(HEAP, program.now_ns += SA_RELEASE_NS / 4);
    use_holes(HOLES, 2);
    assert_int_equal(step_all(h, &steps), 0);
    page_heap_check();
}

/* What is used between two ticks stays, though much was due at the first one: steps release what
 * was left unused in that time, once. */
static void keep_working_set(void *unused)
{
    enum { LEFT = 4096 };
    struct sa_huge_heap *h = HEAP->huge;
    size_t steps, done;

    (void)unused;
    use_holes(HOLES, 1);
    sa_page_heap_tick(HEAP, program.now_ns += SA_RELEASE_NS / 2);
    step_all(h, &steps);
    sa_page_heap_tick(HEAP, program.now_ns += SA_RELEASE_NS / 2);
    assert_true(sa_huge_heap_backed(h) > 20 * LEFT);
    use_holes((int)((sa_huge_heap_backed(h) - LEFT) / PAGES * 2), 2);
    done = step_all(h, &steps);
    assert_in_range(done, LEFT / 2, LEFT + SA_HUGE_PAGES);
    assert_true(steps > 1);
}

static void test_heap_releases_in_steps(void **state)
{
    (void)state;
    test_child_passes(release_in_steps, NULL);
    test_child_passes(keep_working_set, NULL);
}

/* Hugepages in the cache that are needed stay when there is too much between spans: that goes. The
 * fall is larger than what stays, but counts no more. */
static void keep_needed(void *unused)
{
    enum { LARGE = 120, SMALL = 2000 };
    static struct sa_span *large[LARGE], *small[SMALL];
    struct sa_huge_heap *h = HEAP->huge;
    size_t cached, backed;

    (void)unused;
    sa_page_heap_tick(HEAP, program.now_ns);
    for (int i = 0; i < SMALL; i++)
        small[i] = sa_page_heap_alloc(HEAP, 64, 1, SA_PAGES_ANY);
    for (int i = 0; i < LARGE; i++)
        large[i] = sa_page_heap_alloc(HEAP, SA_HUGE_PAGES, 1, SA_PAGES_ANY);
    for (int turn = 0; turn < 2; turn++) { /* the second time half of them are missing */
        for (int i = 0; i < LARGE / 2; i++)
            sa_page_heap_free(HEAP, large[i], false);
        if (turn == 0)
            for (int i = 0; i < LARGE / 2; i++)
                large[i] = sa_page_heap_alloc(HEAP, SA_HUGE_PAGES, 1, SA_PAGES_ANY);
    }
    sa_page_heap_tick(HEAP, program.now_ns);
    h->falls = 5; /* the next counts no more */
    cached = h->cache.map.hugepages;
    assert_in_range(cached, 40, LARGE / 2);
    assert_int_equal(sa_huge_cache_needed(&h->cache), cached);
    backed = sa_huge_filler_backed(&h->filler);
    for (int i = 0; i < SMALL; i++)
        if (i % 5)
            sa_page_heap_free(HEAP, small[i], false);
    assert_true(sa_huge_filler_backed(&h->filler) < backed + SMALL * 64 / 2);
    assert_true(h->cache.map.hugepages >= cached);
}

static void test_heap_keeps_needed_hugepages_whole(void **state)
{
    (void)state;
    test_child_passes(keep_needed, NULL);
}

/* The parts of the report add up to what is mapped. */
static void report(void *unused)
{
    struct sa_huge_stats *s = calloc(1, sizeof(*s));
    size_t released = 0, backed = 0;

    (void)unused;
    fake.random.state = 80;
    for (int i = 0; i < 20000; i++) {
        program_step();
        if (i % 100)
            continue;
        sa_page_heap_huge_stats(HEAP, s);
        assert_int_equal(
            (s->part_filler.used_pages + s->part_region.used_pages + s->part_cache.used_pages)
                << SA_PAGE_SHIFT,
            s->heap.in_use_bytes);
        assert_int_equal(
            (s->part_filler.free_pages + s->part_region.free_pages + s->part_cache.free_pages)
                << SA_PAGE_SHIFT,
            s->heap.backed_bytes);
        assert_int_equal((s->part_filler.unmapped_pages + s->part_region.unmapped_pages +
                          s->part_alloc.unmapped_pages)
                             << SA_PAGE_SHIFT,
                         s->heap.released_bytes);
        released = backed = 0;
        for (int k = 0; k < SA_AGE_LENGTHS; k++) {
            released += s->ages.released[k].pages;
            backed += s->ages.backed[k].pages;
        }
        assert_int_equal(released << SA_PAGE_SHIFT, s->heap.released_bytes);
        assert_int_equal(backed << SA_PAGE_SHIFT, s->heap.backed_bytes);
        assert_int_equal(s->filler.full + s->filler.partial + s->filler.released,
                         s->filler.hugepages);
    }
    assert_true(s->cache.hits > 0 && s->cache.misses > 0 && s->cache.stored > 0);
}

static void test_heap_reports_all_of_its_pages(void **state)
{
    (void)state;
    test_child_passes(report, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_keeps_its_rules),
        cmocka_unit_test(test_heap_keeps_its_rules_when_calls_fail),
        cmocka_unit_test(test_heap_packs_awkward_spans_into_regions),
        cmocka_unit_test(test_heap_wears_no_addresses_out),
        cmocka_unit_test(test_heap_keeps_what_is_needed_again),
        cmocka_unit_test(test_heap_keeps_needed_hugepages_whole),
        cmocka_unit_test(test_heap_releases_in_steps),
        cmocka_unit_test(test_heap_reports_all_of_its_pages),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_heap", tests, NULL, NULL);
}
