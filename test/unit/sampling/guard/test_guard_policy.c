/* SPDX-License-Identifier: Apache-2.0 */
/* The guard policy: how many samples are guarded, of which stacks, and how soon after each
 * other. */
#include "sampling/guard/guard_policy.h"

#include "test/support/cmocka.h"

#define SECOND 1000000000ull

static uint64_t now_ns = SECOND;

/* Makes stacks with different hashes. */
static struct sa_stack *stack(uint64_t hash)
{
    static struct sa_stack s;

    s.hash = hash;
    return &s;
}

static bool is_selected(const struct sa_stack *s, size_t bytes, uint64_t now)
{
    return sa_guard_policy_make(s, bytes, now) == SALLOC_GUARDED_REQUESTED;
}

static unsigned chosen_of(unsigned samples, unsigned stacks, uint64_t gap_ns)
{
    unsigned selected = 0;

    for (unsigned i = 0; i < samples; i++) {
        now_ns += gap_ns;
        selected += is_selected(stack(i % stacks), 100, now_ns);
    }
    return selected;
}

static void test_guard_policy_all_or_none(void **state)
{
    (void)state;
    sa_guard_policy_init(1, 1);
    assert_int_equal(chosen_of(1000, 1, 0), 1000);
    sa_guard_policy_init(0, 1);
    assert_int_equal(chosen_of(1000, 1000, SECOND), 0);
}

/* Of stacks that do not repeat, one in N is guarded, from a random place in the first round on. */
static void test_guard_policy_one_in_n(void **state)
{
    unsigned firsts = 0, selected = 0, since = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        unsigned first = 0;

        sa_guard_policy_init(50, seed);
        while (!is_selected(stack(first << 20 | seed), 100, now_ns) && first < 1000) {
            now_ns += SECOND;
            first++;
        }
        assert_true(first < 50);
        firsts += first;
    }
    /* Uniform in 0 .. 49: the mean of 100 is 24.5 with deviation 1.44; 8 is 5.5 of them. */
    assert_true(firsts > 1650 && firsts < 3250);
    for (unsigned i = 0; i < 100000; i++) {
        now_ns += SECOND;
        since++;
        if (is_selected(stack(1 + (uint64_t)i * 1000), 100, now_ns)) {
            assert_true(selected == 0 || since >= 50);
            since = 0;
            selected++;
        }
    }
    /* With probability 0.4 %, both counters of a stack belong to others; the next one may be
     * guarded then. */
    assert_in_range(selected, 1990, 2000);
}

/* One stack that has all samples is guarded rarely. After n times the probability is 2^-n, and a
 * counter is halved after 1024 refusals. From n to 2n takes about 2^2n samples, which is 1024
 * for n = 5. The count settles at 5 guarded of 1024 samples: 98 of 20000. (Each interval is
 * geometric with deviation 100 %; half and twice that count are 5 deviations and more.) */
static void test_guard_policy_spares_stacks_that_were_selected(void **state)
{
    struct sa_guard_policy_stats s;
    unsigned alone, others;

    (void)state;
    sa_guard_policy_init(2, 7);
    alone = chosen_of(20000, 1, SECOND);
    assert_in_range(alone, 49, 196);
    sa_guard_policy_stats(&s);
    assert_int_equal(s.every, 2);
    assert_true(s.skipped > 9000);
    /* A new stack is guarded at once. */
    now_ns += SECOND;
    assert_true(is_selected(stack(12345), 100, now_ns));
    /* Many stacks with few samples each are guarded nearly every time: 4000 of 8000. */
    others = 0;
    for (unsigned i = 0; i < 8000; i++) {
        now_ns += SECOND;
        others += is_selected(stack(1000 + i), 100, now_ns);
    }
    assert_true(others > 3600 && others <= 4000);
}

/* Old counts are forgotten: a stack is guarded again once others were. */
static void test_guard_policy_forgets(void **state)
{
    unsigned before, again;

    (void)state;
    sa_guard_policy_init(2, 9);
    before = chosen_of(2000, 1, SECOND);
    for (unsigned i = 0; i < 8000; i++) {
        now_ns += SECOND;
        is_selected(stack(5000 + i), 100, now_ns);
    }
    again = chosen_of(2000, 1, SECOND);
    assert_true(before >= 4 && again >= 4);
}

/* The pauses between guarded samples, and between quarantined pages, hold for any number of
 * samples. */
static void test_guard_policy_has_a_pace(void **state)
{
    unsigned selected = 0, quarantined = 0;

    (void)state;
    sa_guard_policy_init(2, 3);
    is_selected(stack(0), 100, now_ns);
    sa_guard_policy_quarantine(100, now_ns);
    now_ns += SA_GUARD_POLICY_FIRST_NS;
    for (unsigned i = 0; i < 1000000; i++) { /* a second, at a microsecond each */
        now_ns += 1000;
        selected += is_selected(stack(i), 100, now_ns);
        quarantined += sa_guard_policy_quarantine(100, now_ns);
    }
    assert_in_range(selected, SECOND / SA_GUARD_POLICY_NS * 9 / 10,
                    SECOND / SA_GUARD_POLICY_NS + 1);
    assert_in_range(quarantined, SECOND / SA_GUARD_POLICY_QUARANTINE_NS * 9 / 10,
                    SECOND / SA_GUARD_POLICY_QUARANTINE_NS + 1);
}

/* Bytes lengthen the pause: by 256 ns each, for guarded samples and quarantined pages of 1 MiB. */
static void test_guard_policy_has_a_pace_for_bytes(void **state)
{
    const uint64_t pause = SA_GUARD_POLICY_BYTE_NS << 20;
    unsigned selected = 0, quarantined = 0;

    (void)state;
    sa_guard_policy_init(2, 3);
    for (unsigned i = 0; i < 1000000; i++) { /* ten seconds */
        now_ns += 10000;
        selected += is_selected(stack(i), 1 << 20, now_ns);
        quarantined += sa_guard_policy_quarantine(1 << 20, now_ns);
    }
    assert_in_range(selected, 10 * SECOND / (SA_GUARD_POLICY_NS + pause) * 9 / 10,
                    10 * SECOND / (SA_GUARD_POLICY_NS + pause) + 1);
    assert_in_range(quarantined, 10 * SECOND / (SA_GUARD_POLICY_QUARANTINE_NS + pause) * 9 / 10,
                    10 * SECOND / (SA_GUARD_POLICY_QUARANTINE_NS + pause) + 1);
    /* The pause is bounded: it ends after some seconds for any size. */
    now_ns += SECOND;
    assert_true(sa_guard_policy_quarantine(SIZE_MAX, now_ns));
    assert_true(sa_guard_policy_quarantine(1, now_ns + 9 * SECOND));
}

/* Soon after the first sample of the process, nothing is guarded or quarantined. */
static void test_guard_policy_begins_late(void **state)
{
    uint64_t start;

    (void)state;
    sa_guard_policy_init(2, 5);
    start = now_ns += SECOND;
    for (uint64_t at = 0; at < SA_GUARD_POLICY_FIRST_NS; at += SA_GUARD_POLICY_FIRST_NS / 1000) {
        assert_false(is_selected(stack(at), 100, start + at));
        assert_false(sa_guard_policy_quarantine(100, start + at));
    }
    assert_true(is_selected(stack(1), 100, start + SA_GUARD_POLICY_FIRST_NS));
    assert_true(sa_guard_policy_quarantine(100, start + SA_GUARD_POLICY_FIRST_NS));
    /* With N = 1, every sample is guarded. */
    sa_guard_policy_init(1, 5);
    assert_true(is_selected(stack(1), 100, 1));
}

/* A sample that is not guarded has the reason: not its turn, a pause, the filter, or none are. */
static void test_guard_policy_says_why_not(void **state)
{
    unsigned filtered = 0;

    (void)state;
    sa_guard_policy_init(2, 5);
    is_selected(stack(1), 100, now_ns);
    assert_int_equal(sa_guard_policy_make(stack(1), 100, now_ns),
                     SALLOC_GUARDED_RATE_LIMITED); /* soon */
    now_ns += SECOND;
    assert_int_equal(sa_guard_policy_make(stack(1), 100, now_ns), SALLOC_GUARDED_REQUESTED);
    now_ns += SECOND;
    assert_int_equal(sa_guard_policy_make(stack(1), 100, now_ns), SALLOC_GUARDED_RATE_LIMITED);
    for (unsigned i = 0; i < 1000; i++) {
        now_ns += SECOND;
        filtered += sa_guard_policy_make(stack(1), 100, now_ns) == SALLOC_GUARDED_FILTERED;
    }
    assert_true(filtered > 900);
    sa_guard_policy_init(0, 5);
    assert_int_equal(sa_guard_policy_make(stack(1), 100, now_ns), SALLOC_GUARDED_DISABLED);
}

/* With a budget, samples are guarded from the first one on, then as time refills the budget, and
 * new stacks before others. Large blocks have a budget of their own. */
static void test_guard_policy_bound(void **state)
{
    unsigned n;

    (void)state;
    sa_guard_policy_init(1, 7);
    sa_guard_policy_bound(32);
    now_ns += SECOND;
    n = chosen_of(1000, 1, 0);
    assert_in_range(n, 16, 31);
    assert_int_equal(chosen_of(300, 300, 0), 32 - n);
    assert_true(is_selected(stack(1), SA_GUARD_POLICY_MAX_BYTES, now_ns));
    assert_false(is_selected(stack(1), SA_GUARD_POLICY_MAX_BYTES, now_ns));
    assert_false(sa_guard_policy_guard_large(now_ns));
    /* 32 MiB take 2049 tokens: 2017 of them were borrowed, for 10.1 s. */
    now_ns += 10 * SECOND;
    assert_false(sa_guard_policy_guard_large(now_ns));
    now_ns += SECOND;
    assert_true(sa_guard_policy_guard_large(now_ns));
    chosen_of(1000, 1000, 0);
    /* One in 5 ms, and the bucket is filled up every 10 ms. */
    n = chosen_of(1000, 1000, 1000000);
    assert_in_range(n, 190, 201);
}

/* Threads read the clock and then take turns in any order: a time from before the last refill adds
 * nothing to the budget. */
static void test_guard_policy_bound_ignores_earlier_times(void **state)
{
    enum { FIRST = 100 };

    (void)state;
    sa_guard_policy_init(1, 1);
    sa_guard_policy_bound(FIRST);
    now_ns += SECOND;
    for (int i = 0; i < 2 * FIRST; i++)
        is_selected(stack(i), 100, now_ns);
    assert_false(is_selected(stack(1), 100, now_ns)); /* nothing is left */
    for (uint64_t ago_ns = 1; ago_ns < SECOND / 2; ago_ns *= 3)
        assert_false(is_selected(stack(ago_ns), 100, now_ns - ago_ns));
    assert_true(is_selected(stack(1), 100, now_ns + SECOND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_policy_all_or_none),
        cmocka_unit_test(test_guard_policy_one_in_n),
        cmocka_unit_test(test_guard_policy_spares_stacks_that_were_selected),
        cmocka_unit_test(test_guard_policy_forgets),
        cmocka_unit_test(test_guard_policy_has_a_pace),
        cmocka_unit_test(test_guard_policy_has_a_pace_for_bytes),
        cmocka_unit_test(test_guard_policy_begins_late),
        cmocka_unit_test(test_guard_policy_says_why_not),
        cmocka_unit_test(test_guard_policy_bound),
        cmocka_unit_test(test_guard_policy_bound_ignores_earlier_times),
    };

    return cmocka_run_group_tests_name("choice", tests, NULL, NULL);
}
