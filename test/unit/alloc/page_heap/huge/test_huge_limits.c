/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits on the hugepage-aware heap, on a system that exists only here: what is taken into use
 * stays below the hard limit, a request is refused only if nothing that is free could make room for
 * it, and a refused one leaves all of the heap's rules as they were. Address space that is mapped
 * ahead counts for nobody.
 */
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/limits.h"

#include "alloc/base/bits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/huge_program.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

#define HEAP (&sa_page_heap_ordinary)
#define MIB  (1ul << 20)

struct run {
    const char *mode;
    uint64_t seed;
    int steps, check_every;
};

/* What of the footprint is not the heap's: records. */
static size_t record_bytes(void)
{
    return sa_footprint_bytes() - (sa_huge_heap_used(HEAP->huge) << SA_PAGE_SHIFT);
}

/*
 * What is taken into use stays below the hard limit (but for records), and a request that it
 * refuses would have passed it, whatever was given back for it.
 */
static void take_if_it_fits(void)
{
    size_t pages = program_pages(), limit = sa_limits_get(SA_LIMIT_HARD);
    size_t more = (pages + (fake.eager ? 2 * SA_HUGE_PAGES : 0)) << SA_PAGE_SHIFT;
    uint64_t refused = sa_limits.refused;
    struct sa_page_heap_stats stats;
    size_t used, records;

    if (program.count == TEST_COUNT(program.spans))
        program_give(0);
    /* A hugepage counts as touched once it is free, as a whole: first what is to be given back has
     * to be. */
    sa_page_heap_stats(HEAP, &stats);
    used = sa_huge_heap_used(HEAP->huge);
    records = record_bytes();
    if (program_take(pages, 1, test_random_below(&fake.random, 2))) {
        if (limit != SA_NO_LIMIT && sa_huge_heap_used(HEAP->huge) > used)
            assert_true(sa_footprint_bytes() <= limit + sa_max(record_bytes(), records) - records);
        return;
    }
    assert_true(sa_limits.refused > refused);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    assert_true(sa_footprint_bytes() + more > limit);
}

/*
 * A program under limits that come, go and change, also to less than is in use. An undone request
 * leaves every rule as it was.
 */
static void limited_run(void *arg)
{
    const struct run *run = arg;
    uint64_t refused_before;

    program_begin(run->mode, run->seed);
    refused_before = sa_limits.refused;
    for (int i = 0; i < run->steps; i++) {
        if (i % 500 == 0)
            sa_limits_set(SA_LIMIT_HARD, test_random_below(&fake.random, 8)
                                             ? sa_footprint_bytes() - 4 * MIB +
                                                   test_random_below(&fake.random, 40 * MIB)
                                             : SA_NO_LIMIT);
        if (i % 2000 == 1000)
            sa_limits_set(SA_LIMIT_SOFT, test_random_below(&fake.random, 2)
                                             ? sa_footprint_bytes() - 20 * MIB
                                             : SA_NO_LIMIT);
        if (i % 3)
            program_step();
        else
            take_if_it_fits();
        if (i % run->check_every == 0)
            page_heap_check();
        if (i % (run->check_every * 50) == 0)
            program_check_memory();
    }
    assert_true(sa_limits.refused > refused_before + (uint64_t)run->steps / 100);
    program_end();
}

static void test_heap_keeps_its_rules_under_limits(void **state)
{
    static struct run runs[] = {
        {"always [madvise] never\n", 21, 25000, 10},
        {"[always] madvise never\n", 22, 25000, 10},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(runs); i++)
        test_child_passes(limited_run, &runs[i]);
}

/* A long span that cannot fit is refused before it is placed: not so much as mapped, let alone seen
 * as used by others. */
static void long_run(void *arg)
{
    const struct run *run = arg;
    uint64_t refused;
    size_t mapped, used;

    program_begin(run->mode, run->seed);
    assert_true(program_take(64 * MIB >> SA_PAGE_SHIFT, 1, false));
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    used = sa_footprint_bytes();
    sa_limits_set(SA_LIMIT_HARD, used + 40 * MIB);
    refused = sa_limits.refused;
    mapped = HEAP->huge->mapped;
    for (size_t mib = 41; mib < 90; mib += 7) {
        assert_false(program_take(mib * MIB >> SA_PAGE_SHIFT, 1, false));
        assert_true(sa_limits.refused > refused);
        refused = sa_limits.refused;
        assert_int_equal(HEAP->huge->mapped, mapped);
        assert_true(sa_footprint_bytes() <= used);
        page_heap_check();
    }
    assert_true(program_take(38 * MIB >> SA_PAGE_SHIFT, 1, false));
    program_end();
}

static void test_long_spans_that_cannot_fit_are_not_mapped(void **state)
{
    static struct run runs[] = {
        {"always [madvise] never\n", 23, 0, 0},
        {"[always] madvise never\n", 24, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(runs); i++)
        test_child_passes(long_run, &runs[i]);
}

/* A kernel that takes nothing back: what a refused request would have taken still counts as it did,
 * and so cannot be had beyond the limit by the next one. */
static void refused_run(void *arg)
{
    const struct run *run = arg;
    struct sa_page_heap_stats stats;
    size_t used, records, limit, refusals = 0;

    program_begin(run->mode, run->seed);
    for (int i = 0; i < run->steps; i++) {
        program_step();
        if (i % 500 == 0)
            sa_limits_set(SA_LIMIT_HARD,
                          sa_footprint_bytes() + test_random_below(&fake.random, 16 * MIB));
        fake.release_fails = i % 500 < 400 ? 100 : 0;
        if (program.count == TEST_COUNT(program.spans))
            program_give(0);
        sa_page_heap_stats(HEAP, &stats);
        used = sa_huge_heap_used(HEAP->huge);
        records = record_bytes();
        limit = sa_limits_get(SA_LIMIT_HARD);
        if (program_take(program_pages(), 1, i % 2)) {
            if (sa_huge_heap_used(HEAP->huge) > used)
                assert_true(sa_footprint_bytes() <=
                            limit + sa_max(record_bytes(), records) - records);
        } else if (fake.release_fails) {
            assert_int_equal(sa_huge_heap_used(HEAP->huge), used);
            refusals++;
        }
        if (i % run->check_every == 0)
            page_heap_check();
    }
    assert_true(refusals > 100);
    fake.release_fails = 0;
    program_end();
}

static void test_refused_requests_leave_no_trace(void **state)
{
    static struct run runs[] = {
        {"always [madvise] never\n", 26, 10000, 10},
        {"[always] madvise never\n", 27, 10000, 10},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(runs); i++)
        test_child_passes(refused_run, &runs[i]);
}

static size_t footprint_seen; /* most, while heaps had more mapped than they knew of */

bool __real_sa_pagemap_grow(uintptr_t start, size_t bytes);
bool __wrap_sa_pagemap_grow(uintptr_t start, size_t bytes);

bool __wrap_sa_pagemap_grow(uintptr_t start, size_t bytes)
{
    footprint_seen = sa_max(footprint_seen, sa_footprint_bytes());
    return __real_sa_pagemap_grow(start, bytes);
}

/* A region is a gibibyte that others must not see as used, though it has just been mapped: they
 * would be refused. */
static void growth_run(void *arg)
{
    const struct run *run = arg;
    size_t before;

    program_begin(run->mode, run->seed);
    footprint_seen = 0;
    for (int i = 0; !HEAP->huge->regions; i++) {
        assert_true(i < 1000);
        before = sa_footprint_bytes();
        assert_true(program_take(SA_HUGE_PAGES + SA_HUGE_PAGES / 4, 1, false));
        assert_true(footprint_seen <= before + MIB); /* records */
    }
    assert_true(footprint_seen > 0);
    before = sa_footprint_bytes();
    assert_non_null(sa_page_heap_alloc(&sa_page_heap_sampled, 1, 1, SA_PAGES_ANY));
    assert_true(footprint_seen <= before + MIB);
    program_end();
}

static void test_growth_is_never_seen_as_used(void **state)
{
    static struct run run = {"always [madvise] never\n", 25, 0, 0};

    (void)state;
    test_child_passes(growth_run, &run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heap_keeps_its_rules_under_limits),
        cmocka_unit_test(test_long_spans_that_cannot_fit_are_not_mapped),
        cmocka_unit_test(test_refused_requests_leave_no_trace),
        cmocka_unit_test(test_growth_is_never_seen_as_used),
    };

    test_start_layers();
    if (sa_vm.page_step != 1)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_limits", tests, NULL, NULL);
}
