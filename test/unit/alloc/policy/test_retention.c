/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for free memory: the window against a list of all uses, and what may be kept. */
#include "alloc/policy/retention.h"

#include "alloc/base/bits.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <string.h>

#define SECOND 1000000000ull
#define USES   400

static struct {
    uint64_t at_ns;
    size_t used; /* until then */
} uses[USES];

/* The most in use from a time on. */
static size_t most_since(unsigned count, uint64_t since_ns, size_t now)
{
    size_t most = now;

    for (unsigned i = 0; i < count; i++)
        if (uses[i].at_ns >= since_ns)
            most = sa_max(most, uses[i].used);
    return most;
}

/* Of each level it knows whether it was used, for tau less a slot at least, and for tau at most. */
static void test_window_is_the_most_of_the_last_tau(void **state)
{
    struct test_random r = {0x3e7e};

    (void)state;
    for (int round = 0; round < 300; round++) {
        struct sa_retention w = {.tau_ns = SECOND * (1 + test_random_below(&r, 60))};
        uint64_t now = test_random_below(&r, 1000 * SECOND), slot = w.tau_ns / SA_RETENTION_SLOTS;
        size_t used = 0;

        for (unsigned i = 0; i < USES; i++) {
            size_t max, low, high;

            now += test_random_below(&r, test_random_below(&r, 10) ? slot : 3 * w.tau_ns);
            sa_retention_note(&w, now, used);
            uses[i].at_ns = now;
            uses[i].used = used;
            used = test_random_size(&r, 20);
            max = sa_retention_max(&w, used);
            low = most_since(i + 1, now - sa_min(now, w.tau_ns - slot), used);
            high = most_since(i + 1, now - sa_min(now, w.tau_ns), used);
            assert_in_range(max, low, high);
        }
    }
}

static void test_target_is_between_use_and_the_most_with_slack(void **state)
{
    struct test_random r = {0x7a61e7};
    struct sa_retention w = {.tau_ns = SA_TAU_MIN_NS};

    (void)state;
    for (int i = 0; i < 20000; i++) {
        size_t used = test_random_size(&r, 24), more = used + test_random_size(&r, 20), max;

        sa_retention_note(&w, (uint64_t)i * SECOND / 10, test_random_size(&r, 24));
        max = sa_retention_max(&w, used);
        assert_in_range(sa_retention_target(&w, used), used, max + sa_retention_slack(used));
        assert_true(sa_retention_target(&w, used) <= sa_retention_target(&w, more));
        assert_in_range(sa_retention_fraction(&w, used), used + sa_retention_slack(used),
                        sa_retention_target(&w, used));
        assert_true(sa_retention_fraction(&w, used) <= sa_retention_fraction(&w, more));
    }
}

static void test_constant_use_has_a_fixed_target(void **state)
{
    (void)state;
    for (size_t used = 0; used < 1 << 20; used += 9999) {
        struct sa_retention w = {.tau_ns = 10 * SECOND};

        sa_retention_note(&w, 0, 3 * used); /* once, before */
        for (uint64_t t = 1; t < 100; t++) {
            sa_retention_note(&w, t * SECOND / 2, used);
            if (t >= 20) {
                assert_int_equal(sa_retention_target(&w, used), used + sa_retention_slack(used));
                assert_int_equal(sa_retention_fraction(&w, used), used + sa_retention_slack(used));
            }
        }
    }
}

static void test_targets_scale_with_use(void **state)
{
    struct test_random r = {0x5ca1e};
    struct sa_retention w = {.tau_ns = SA_TAU_MIN_NS}, w8 = w;

    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        size_t used = SA_SLACK_FRACTION * test_random_size(&r, 16);

        sa_retention_note(&w, i * SECOND / 7, used);
        sa_retention_note(&w8, i * SECOND / 7, 8 * used);
        used = SA_SLACK_FRACTION * test_random_size(&r, 16);
        assert_int_equal(8 * (sa_retention_target(&w, used) - SA_SLACK_PAGES),
                         sa_retention_target(&w8, 8 * used) - SA_SLACK_PAGES);
    }
}

/* 200 MiB were in use; then 16 on as many MiB of hugepages as say the sums. */
static void test_due_goes_by_both_windows(void **state)
{
    const size_t mib = (1ul << 20) >> SA_PAGE_SHIFT;
    struct sa_retention whole = {.tau_ns = 3 * SECOND}, inside = {.tau_ns = 30 * SECOND};
    struct sa_retention_sums s = {16 * mib, 40 * mib, 160 * mib, 24 * mib};
    struct sa_retention_due due;

    (void)state;
    sa_retention_note(&whole, 0, 200 * mib);
    sa_retention_note(&inside, 0, 200 * mib);
    due = sa_retention_due(&whole, &inside, &s);
    assert_int_equal(due.whole, 0);
    assert_int_equal(due.inside, 0);
    sa_retention_note(&whole, 4 * SECOND, s.used_whole);
    sa_retention_note(&inside, 4 * SECOND, s.used);
    due = sa_retention_due(&whole, &inside, &s); /* what lies inside has used up slack */
    assert_int_equal(due.whole, 160 * mib);
    assert_int_equal(due.inside, 0);
    sa_retention_note(&inside, 31 * SECOND, s.used);
    due = sa_retention_due(&whole, &inside, &s);
    assert_int_equal(due.inside, 24 * mib - sa_retention_slack(s.used));
    s.inside = 2 * mib;
    due = sa_retention_due(&whole, &inside, &s);
    assert_int_equal(due.whole, 160 * mib - (sa_retention_slack(s.used) - 2 * mib));
    assert_int_equal(due.inside, 0);
}

static void test_one_thread_releases_at_once_until_that_costs_much(void **state)
{
    const struct sa_retention_sums s = {.used = 0, .whole = 100000};
    const size_t due = 100000 - SA_SLACK_PAGES - SA_ONCE_PAGES;
    const struct sa_retention_sums holes = {.used = 100, .whole = 300, .inside = 100000};
    struct sa_retention_once o = {0};
    uint64_t cpu_ns = SECOND;

    (void)state;
    assert_int_equal(sa_retention_once_due(&o, &holes, cpu_ns), holes.whole);
    for (int i = 0; i < 20; i++) { /* not needed again: for ever */
        assert_int_equal(sa_retention_once_due(&o, &s, cpu_ns), due);
        sa_retention_once_released(&o, due);
    }
    for (int i = 0; i <= SA_ONCE_REFAULTS; i++) {
        assert_int_equal(sa_retention_once_due(&o, &s, cpu_ns), due);
        sa_retention_once_released(&o, due);
        for (int k = 0; k < 10; k++) /* in parts: counts once */
            sa_retention_once_refaulted(&o, due / 10, SA_PRICE_WHOLE_NS);
    }
    assert_int_equal(sa_retention_once_due(&o, &s, cpu_ns), 0);
    assert_int_equal(sa_retention_once_due(&o, &s, 1000 * cpu_ns), due);
    sa_retention_once_refaulted(&o, SIZE_MAX, 0);
    assert_int_equal(o.released, 0);
}

static void test_tau_is_price_over_hold(void **state)
{
    (void)state;
    assert_int_equal(sa_retention_tau_ns(9000, 300), 30 * SECOND);
    assert_int_equal(sa_retention_tau_ns(1, 300), SA_TAU_MIN_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_is_the_most_of_the_last_tau),
        cmocka_unit_test(test_target_is_between_use_and_the_most_with_slack),
        cmocka_unit_test(test_constant_use_has_a_fixed_target),
        cmocka_unit_test(test_targets_scale_with_use),
        cmocka_unit_test(test_due_goes_by_both_windows),
        cmocka_unit_test(test_one_thread_releases_at_once_until_that_costs_much),
        cmocka_unit_test(test_tau_is_price_over_hold),
    };

    return cmocka_run_group_tests_name("retention", tests, NULL, NULL);
}
