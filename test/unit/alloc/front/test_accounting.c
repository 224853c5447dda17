/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each byte that is mapped is in one row: at rest the rows of the stats page add up to the
 * footprint, which is what limits and the peak go by, and in use is what the program has. With
 * samples, guarded ones, and freed blocks of all kinds in quarantine, of which those that hold no
 * memory are no part of the footprint.
 */
#include "alloc/os/vm.h"
#include "test/support/guards.h"

#include "alloc/base/hardening.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/hardening/quarantine.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/account/peak.h"
#include "sampling/snapshot/profile_snapshot.h"
#include "stats/stats_snapshot.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>

bool __real_sa_vm_protect(void *p, size_t bytes, bool accessible);
bool __wrap_sa_vm_protect(void *p, size_t bytes, bool accessible);

static bool refuse_access; /* what the kernel does not do */

bool __wrap_sa_vm_protect(void *p, size_t bytes, bool access)
{
    return !(access && refuse_access) && __real_sa_vm_protect(p, bytes, access);
}

static const struct sa_snapshot *assert_conserved(void)
{
    static struct sa_snapshot s;
    size_t actual;

    sa_snapshot_take(&s);
    actual = sa_snapshot_actual(&s);
    assert_int_equal(actual, sa_footprint_bytes());
    assert_int_equal(actual + s.released_bytes, sa_vm_mapped_bytes());
    assert_int_equal(actual, s.in_use_bytes + sa_snapshot_page_heap_free(&s) + s.central_bytes +
                                 s.cpu_bytes + s.thread_bytes + s.transfer_bytes +
                                 s.quarantine_bytes + s.metadata_bytes + s.arena.unallocated_bytes +
                                 s.arena.unavailable_bytes);
    return &s;
}

/* What a block counts as: a guarded one as an object of its class, a large one with the guard
 * behind it. */
static size_t counted(const void *p)
{
    const struct sa_span *span = sa_pagemap_span((uintptr_t)p);
    size_t size = sa_front_size(p, "test");

    if (span->state == SA_SPAN_LARGE)
        return size + ((size_t)span->guard << SA_PAGE_SHIFT);
    return is_guarded(p) ? sa_size_classes.of[sa_size_class_find(sa_max(size, 1))].size : size;
}

static void traffic(uint64_t seed, int steps, unsigned size_log)
{
    enum { BLOCKS = 800 };
    static void *blocks[BLOCKS];
    struct test_random r = {seed};
    size_t expect = 0;

    for (int step = 0; step < steps; step++) {
        size_t i = test_random_below(&r, BLOCKS);

        if (blocks[i]) {
            expect -= counted(blocks[i]);
            sa_front_free(blocks[i]);
            blocks[i] = NULL;
        } else {
            blocks[i] = sa_front_alloc(test_random_size(&r, size_log), 1, false);
            expect += counted(blocks[i]);
        }
        if (step % 250 == 0)
            assert_int_equal(assert_conserved()->in_use_bytes, expect);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i])
            sa_front_free(blocks[i]);
        blocks[i] = NULL;
    }
    assert_int_equal(assert_conserved()->in_use_bytes, 0);
}

/* At each interval, from every block sampled to none. */
static void test_accounting_conserves(void **state)
{
    static const int64_t intervals[] = {1, 4096, 65536, 1 << 20, 0};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(intervals); i++) {
        set_interval(intervals[i]);
        traffic(i, 6000, 16);
        traffic(i, 2000, 22);
    }
    sa_sample_quarantine_flush();
    assert_conserved();
}

/* Sampled blocks of a class with one object a span take none from the cache, and count exactly: as
 * allocations, as frees, and as in use. */
static void test_accounting_of_samples_without_objects(void **state)
{
    enum { BLOCKS = 40, BYTES = 65536 };
    unsigned cls = sa_size_class_find(BYTES);
    struct sa_cpu_class_stats before, after;
    void *blocks[BLOCKS];

    (void)state;
    assert_int_equal(sa_size_classes.of[cls].objects, 1);
    set_interval(0);
    sa_front_free(sa_front_alloc(BYTES, 1, false)); /* an object for the cache */
    set_interval(1);
    sa_cpu_cache_class_stats(cls, &before);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = sa_front_alloc(BYTES, 1, false);
        assert_int_equal(sa_pagemap_class((uintptr_t)blocks[i]), 0); /* sampled */
        sa_cpu_cache_class_stats(cls, &after);
        assert_true(after.objects >= before.objects);
        assert_int_equal(after.allocations, before.allocations + (unsigned)i + 1);
        assert_int_equal(after.frees, before.frees);
        assert_int_equal(assert_conserved()->in_use_bytes, (size_t)(i + 1) * BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        sa_front_free(blocks[i]);
    sa_cpu_cache_class_stats(cls, &after);
    assert_int_equal(after.allocations, before.allocations + BLOCKS);
    assert_int_equal(after.frees, before.frees + BLOCKS);
    assert_int_equal(assert_conserved()->in_use_bytes, 0);
}

/* Blocks of a loop leave nothing but address space behind, whether they are kept as samples or as
 * large blocks. */
static void loop(size_t size, int64_t interval)
{
    struct sa_peak_stats before, after;
    size_t footprint, limit, soft_hits = sa_load_relaxed(&sa_limits.hits[SA_LIMIT_SOFT]);

    set_interval(interval);
    sa_front_free(sa_front_alloc(size, 1, false));
    footprint = sa_footprint_bytes();
    sa_peak_stats(&before);
    limit = sa_max(footprint, before.used_bytes) + 2 * size;
    sa_limits_set(SA_LIMIT_SOFT, limit);
    sa_limits_set(SA_LIMIT_HARD, limit + size);
    for (int i = 0; i < 300; i++) {
        char *p = sa_front_alloc(size, 1, false);

        assert_non_null(p);
        *p = 1;
        sa_front_free(p);
    }
    sa_peak_stats(&after);
    assert_true(after.used_bytes <= sa_max(before.used_bytes, footprint + size) + size);
    assert_int_equal(sa_load_relaxed(&sa_limits.hits[SA_LIMIT_SOFT]), soft_hits);
    assert_int_equal(sa_load_relaxed(&sa_limits.hits[SA_LIMIT_HARD]), 0);
    sa_limits_set(SA_LIMIT_SOFT, SA_NO_LIMIT);
    sa_limits_set(SA_LIMIT_HARD, SA_NO_LIMIT);
    assert_true(assert_conserved()->quarantined_empty_bytes >= 8 * size);
}

static void test_accounting_of_what_holds_no_memory(void **state)
{
    static const size_t sizes[] = {300000, 1000000, MIB, 2 * MIB - 1};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        loop(sizes[i], 1); /* the sampler keeps them: all are chosen */
        sa_sample_quarantine_flush();
        loop(sizes[i], 0); /* the quarantine does */
    }
}

/* What the kernel does not make accessible again waits, without memory. */
static void test_accounting_of_what_is_put_aside(void **state)
{
    static const size_t sizes[] = {100, 9000, 100000, 300000, 3 * MIB};
    size_t in_use;

    (void)state;
    set_interval(1);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        for (int k = 0; k < 2 * GUARD_SLOTS; k++) {
            char *p = sa_front_alloc(sizes[i], 1, false);

            *p = 1;
            sa_front_free(p);
        }
    in_use = assert_conserved()->in_use_bytes;
    refuse_access = true;
    sa_sample_quarantine_flush();
    assert_int_equal(assert_conserved()->in_use_bytes, in_use);
    refuse_access = false;
    sa_sample_quarantine_flush();
    assert_int_equal(assert_conserved()->in_use_bytes, in_use);
    sa_maintenance_release(PTRDIFF_MAX);
    assert_conserved();
}

/* A profile that the program holds takes the pages that it fills, of each of its four mappings. */
static void test_accounting_of_profiles(void **state)
{
    enum { N = 100 };
    size_t before, after, page = sa_max(sa_vm.page_bytes, 4096);
    struct sa_profile *profile;
    void *p[N];
    int error;

    (void)state;
    set_interval(1);
    for (int i = 0; i < N; i++)
        p[i] = sa_front_alloc(1000, 1, false);
    before = sa_footprint_bytes();
    profile = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_non_null(profile);
    after = sa_footprint_bytes();
    assert_in_range(after - before, 1,
                    sa_align_up(N * sizeof(struct sa_sample_copy), page) + 3 * page);
    sa_profile_free(profile);
    assert_int_equal(sa_footprint_bytes(), before);
    for (int i = 0; i < N; i++)
        sa_front_free(p[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accounting_conserves),
        cmocka_unit_test(test_accounting_of_samples_without_objects),
        cmocka_unit_test(test_accounting_of_what_holds_no_memory),
        cmocka_unit_test(test_accounting_of_what_is_put_aside),
        cmocka_unit_test(test_accounting_of_profiles),
    };
    uint64_t secret[4] = {1, 2, 3, 4};

    test_start_layers();
    sa_sampler_init(1, 1);
    sa_hardening_init(&(struct sa_hardening){.quarantine_bytes = 8 * MIB}, secret);
    sa_quarantine_init(8 * MIB);
    test_start(TEST_CACHE_LIMIT);
    guard_all();
    return cmocka_run_group_tests_name("accounting", tests, NULL, NULL);
}
