/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of hugepages: what goes in comes out, once; and how its limit follows demand. Windows
 * of time under it, against a list of all samples. No system is involved; time is the test's.
 */
#include "alloc/page_heap/huge/huge_cache.h"

#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <string.h>

#define HUGEPAGES 512
#define SECOND    1000000000ull
#define LEAST     SA_HUGE_CACHE_MIN

static struct sa_huge_nodes nodes;
static struct sa_huge_cache cache;
static uint64_t now_ns;

static void begin(void)
{
    memset(&cache, 0, sizeof(cache));
    sa_huge_cache_init(&cache, &nodes);
    assert_true(sa_huge_nodes_ready(&nodes, 1000));
    now_ns = 100 * SECOND;
    sa_huge_cache_tick(&cache, now_ns);
}

static void let_pass(uint64_t ns)
{
    for (uint64_t end = now_ns + ns; now_ns < end;) {
        now_ns = end - now_ns > SECOND / 4 ? now_ns + SECOND / 4 : end;
        sa_huge_cache_tick(&cache, now_ns);
        sa_huge_cache_shrink(&cache);
    }
}

/* Random traffic: no hugepage is in two places, usage and size are what the model says. */
static void test_cache_gives_out_what_it_was_given(void **state)
{
    static enum { OUTSIDE, CACHED, USED } where[HUGEPAGES];
    struct test_random r = {0xcac4e};
    size_t used = 0, cached = 0, start, n;
    uint64_t hits = 0, misses = 0, stored = 0;

    (void)state;
    begin();
    memset(where, 0, sizeof(where));
    for (int step = 0; step < 20000; step++) {
        assert_true(sa_huge_nodes_ready(&nodes, 10));
        n = test_random_size(&r, 4);
        if (test_random_below(&r, 2)) {
            start = sa_huge_cache_take(&cache, n, 1);
            if (start != SA_HUGE_NONE) {
                hits++;
                cached -= n;
                for (size_t i = 0; i < n; i++) {
                    assert_int_equal(where[start + i], CACHED);
                    where[start + i] = USED;
                }
                used += n;
            } else { /* from elsewhere, if there is room */
                misses++;
                for (start = 0, n = 0; start < HUGEPAGES && where[start] != OUTSIDE;)
                    start++;
                for (; start + n < HUGEPAGES && where[start + n] == OUTSIDE && n < 3; n++)
                    where[start + n] = USED;
                sa_huge_cache_unuse(&cache, cache.usage - used);
                sa_huge_cache_use(&cache, n);
                used += n;
            }
        } else {
            start = test_random_below(&r, HUGEPAGES);
            for (n = 0; start + n < HUGEPAGES && where[start + n] == USED && n < 8; n++)
                where[start + n] = CACHED;
            if (n) {
                sa_huge_cache_put(&cache, start, n);
                stored++;
                used -= n;
                cached += n;
            }
        }
        if (test_random_below(&r, 8) == 0) {
            n = sa_huge_cache_evict(&cache, 1 + test_random_below(&r, 8), &start);
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(where[start + i], CACHED);
                where[start + i] = OUTSIDE;
            }
            cached -= n;
        }
        assert_int_equal(cache.usage, used);
        assert_int_equal(cache.map.hugepages, cached);
        if (step % 100 == 0)
            let_pass(test_random_below(&r, SECOND));
    }
    assert_int_equal(cache.stats.hits, hits);
    assert_int_equal(cache.stats.misses, misses);
    assert_int_equal(cache.stats.stored, stored);
}

/* Takes n hugepages, from elsewhere if the cache does not have them. */
static void take(size_t n)
{
    sa_huge_cache_take(&cache, n, 1);
}

static size_t excess_after_put(size_t start, size_t n)
{
    assert_true(sa_huge_nodes_ready(&nodes, 10));
    sa_huge_cache_put(&cache, start, n);
    return sa_huge_cache_surplus(&cache);
}

static void test_cache_limit_follows_swings(void **state)
{
    size_t start;

    (void)state;
    begin();
    take(100);
    let_pass(SECOND / 2);
    assert_int_equal(excess_after_put(0, 100), 100 - LEAST); /* the limit is what it was at first */
    while (sa_huge_cache_surplus(&cache))                    /* as the heap does */
        assert_true(sa_huge_cache_evict(&cache, sa_huge_cache_surplus(&cache), &start) > 0);
    assert_int_equal(cache.map.hugepages, LEAST);
    take(100); /* a miss: usage fell by 100 and rose by 100 within the second */
    assert_int_equal(cache.limit, 110);
    assert_int_equal(excess_after_put(200, 100), LEAST + 100 - 110);
    /* And when it is full for long, the limit falls again, to the least. */
    let_pass(60 * SECOND);
    assert_int_equal(cache.limit, LEAST);
}

static void test_cache_limit_has_a_ceiling(void **state)
{
    (void)state;
    begin();
    cache.limit = 1000;
    cache.ceiling = 40;
    take(100);
    assert_int_equal(excess_after_put(0, 100), 60);
    assert_int_equal(cache.stats.overflows, 1);
}

/* A limit that is made use of stays. */
static void test_cache_limit_stays_while_it_is_needed(void **state)
{
    (void)state;
    begin();
    cache.limit = 100;
    take(100);
    for (int i = 0; i < 100; i++) {
        size_t start;

        excess_after_put(0, 100);
        let_pass(SECOND / 4);
        start = sa_huge_cache_take(&cache, 100, 1);
        assert_int_equal(start, 0);
        let_pass(SECOND / 4);
    }
    assert_int_equal(cache.limit, 100);
}

static void test_cache_reports(void **state)
{
    struct sa_huge_cache_stats s;

    (void)state;
    begin();
    take(50);
    let_pass(20 * SECOND);
    excess_after_put(0, 20);
    let_pass(10 * SECOND);
    sa_huge_cache_note_released(&cache, 3, true);
    sa_huge_cache_note_released(&cache, 4, false);
    sa_huge_cache_report(&cache, &s);
    assert_int_equal(s.cached, 20);
    assert_int_equal(s.limit, LEAST);
    assert_int_equal(s.usage.min, 0);
    assert_int_equal(s.usage.now, 30);
    assert_int_equal(s.usage.max, 50);
    assert_int_equal(s.size.max, 20);
    assert_int_equal(s.off_peak.max, 20);
    assert_int_equal(s.cached_mib_s, 20 * 2 * 10);
    assert_int_equal(s.periodic_released, 3);
    assert_int_equal(s.fast_released, 4);
}

/* Random samples in a window; its answers recomputed from all of them. */
static void test_window_remembers_slots(void **state)
{
    enum { SAMPLES = 4000 };
    static struct {
        uint64_t slot;
        size_t value;
    } all[SAMPLES * 2];
    struct sa_sliding_window w = {.slot_ns = 1000};
    struct test_random r = {0x717e};
    uint64_t now = 5000;
    size_t n = 0, value = 7;

    (void)state;
    sa_sliding_window_add(&w, value);
    sa_sliding_window_advance(&w, now);
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t passed = test_random_below(&r, 4) ? 0 : test_random_below(&r, 5000);
        uint64_t slots = 1 + test_random_below(&r, SA_SLIDING_WINDOW_SLOTS);
        size_t min = value, max = value;

        for (uint64_t s = (now + passed) / 1000; passed && s * 1000 > now; s--)
            if (n < SAMPLES * 2) { /* in slots that begin, the value is the old one */
                all[n].slot = s;
                all[n++].value = value;
            }
        now += passed;
        sa_sliding_window_advance(&w, now);
        value = test_random_below(&r, 1000);
        sa_sliding_window_add(&w, value);
        if (n == SAMPLES * 2)
            break;
        all[n].slot = now / 1000;
        all[n++].value = value;
        if (now / 1000 < 70 + 5)
            continue; /* the window is not full yet */
        for (uint64_t s = now / 1000; s > now / 1000 - slots; s--) {
            size_t slot_min = SIZE_MAX, slot_max = 0;

            for (size_t k = 0; k < n; k++)
                if (all[k].slot == s) {
                    slot_min = all[k].value < slot_min ? all[k].value : slot_min;
                    slot_max = all[k].value > slot_max ? all[k].value : slot_max;
                }
            if (slot_min == SIZE_MAX)
                fail_msg("no sample in slot %zu", (size_t)s);
            min = slot_min < min ? slot_min : min;
            max = slot_max > max ? slot_max : max;
        }
        assert_int_equal(sa_sliding_window_min(&w, slots * 1000), min);
        assert_int_equal(sa_sliding_window_max(&w, slots * 1000), max);
    }
}

/* What was missing lately is needed, but no more than has been used in the last second, and not for
 * ever. */
static void test_cache_needs_what_was_missing(void **state)
{
    size_t start = 1000;

    (void)state;
    begin();
    sa_huge_cache_use(&cache, 100);
    sa_huge_cache_put(&cache, start, 60);
    assert_int_equal(sa_huge_cache_needed(&cache), 0); /* nobody has missed them */
    assert_int_equal(sa_huge_cache_evict(&cache, 60, &start), 60);
    assert_int_equal(sa_huge_cache_take(&cache, 50, 1),
                     SA_HUGE_NONE); /* it fell by 60, and has risen from 0 */
    assert_int_equal(cache.demand_range, 60);
    assert_int_equal(sa_huge_cache_needed(&cache), 0); /* there are none */
    sa_huge_cache_put(&cache, 2000, 5);
    assert_int_equal(sa_huge_cache_needed(&cache), 5);
    sa_huge_cache_put(&cache, 2005, 25);
    assert_int_equal(cache.usage, 60);
    assert_int_equal(sa_huge_cache_needed(&cache), 30);
    sa_huge_cache_put(&cache, 2030, 40); /* 70 are cached, 80 less are used than were */
    assert_int_equal(sa_huge_cache_needed(&cache), 60);
    let_pass(2 * SECOND);
    assert_int_equal(cache.usage, 20);
    assert_int_equal(sa_huge_cache_needed(&cache),
                     0); /* in the last second there were no more than now */
    let_pass(20 * SECOND);
    assert_int_equal(cache.demand_range, 0);
}

/* What swings often, but by little, does not keep alive what has swung by much before; and what
 * swings as much as ever is not forgotten. */
static void test_cache_demand_range_is_that_of_late(void **state)
{
    size_t start;

    (void)state;
    begin();
    /* The cache keeps nothing, and all 100 are missing each time; then it keeps all. */
    for (int turn = 0; turn < 100; turn++) {
        take(100);
        sa_huge_cache_put(&cache, 0, 100);
        assert_int_equal(sa_huge_cache_evict(&cache, 100, &start), 100);
        let_pass(SECOND / 10);
    }
    assert_int_equal(cache.demand_range, 100);
    for (int turn = 0; turn < 100; turn++) {
        take(100);
        sa_huge_cache_put(&cache, 0, 100);
        let_pass(SECOND / 10);
    }
    assert_int_equal(cache.demand_range, 100);
    for (int turn = 0; turn < 300; turn++) {
        start = sa_huge_cache_take(&cache, 4, 1);
        sa_huge_cache_put(&cache, start, 4);
        let_pass(SECOND / 10);
    }
    assert_in_range(cache.demand_range, 0, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cache_gives_out_what_it_was_given),
        cmocka_unit_test(test_cache_limit_follows_swings),
        cmocka_unit_test(test_cache_limit_has_a_ceiling),
        cmocka_unit_test(test_cache_limit_stays_while_it_is_needed),
        cmocka_unit_test(test_cache_needs_what_was_missing),
        cmocka_unit_test(test_cache_demand_range_is_that_of_late),
        cmocka_unit_test(test_cache_reports),
        cmocka_unit_test(test_window_remembers_slots),
    };

    sa_vm_init();
    return cmocka_run_group_tests_name("huge_cache", tests, NULL, NULL);
}
