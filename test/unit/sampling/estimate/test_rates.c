/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of inclusion probabilities: the formula against libm in long double, the ends of its
 * range, classes with a probability of their own, and readers that never see two generations mixed.
 */
#include "sampling/estimate/rates.h"

#include "alloc/base/rng.h"
#include "alloc/base/size_class.h"
#include "alloc/os/lock.h"
#include "sampling/estimate/estimate.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <math.h>

#define MIB (1l << 20)

/*
 * log1p, a product and expm1 of a negative number: the relative error of each reaches the result at
 * most undiminished, and each is at most two units in the last place. 1e-14 is 45 of them.
 */
#define ROUNDING 1e-14

/* The changes of rates, under a lock that stands for that of alloc/maintain/sample_rates.c. */
static struct sa_lock lock;

static void set_interval(int64_t bytes)
{
    sa_lock_acquire(&lock, SA_RANK_RATES);
    sa_rates_set_interval(bytes);
    sa_lock_release(&lock, SA_RANK_RATES);
}

static void set_classes(const double *p)
{
    sa_lock_acquire(&lock, SA_RANK_RATES);
    sa_rates_set_classes(p);
    sa_lock_release(&lock, SA_RANK_RATES);
}

static void bound_past(double bytes)
{
    sa_lock_acquire(&lock, SA_RANK_RATES);
    sa_rates_bound_past(bytes);
    sa_lock_release(&lock, SA_RANK_RATES);
}

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want)))
        fail_msg("%.17g is not %.17g", got, want);
}

static double formula(double interval, double bytes)
{
    return (double)-expm1l((long double)bytes * log1pl(-1 / (long double)interval));
}

static void test_rates_follow_the_formula(void **state)
{
    static const double intervals[] = {2, 3, 100, 4096, 524288, 2097152, 1e9, 1e15, 9e18};
    static const double sizes[] = {1, 8, 16, 100, 8192, 262144, 4194304, 1e12, 1e18};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(intervals); i++) {
        for (size_t j = 0; j < TEST_COUNT(sizes); j++) {
            double want = formula(intervals[i], sizes[j]);
            double got = sa_rate_probability(intervals[i], sizes[j]);

            if (want > SA_RATE_CERTAIN)
                assert_true(got == 1);
            else
                assert_near(got, want, ROUNDING);
        }
    }
}

/* Of a block without a class, from a trial with the smallest number that there is; p is 0 where
 * even that does not win. */
static struct sa_rate rate_of_size(size_t bytes)
{
    uint64_t rng = 0 - SA_RNG_STEP; /* what follows is 0 */
    struct sa_rate r = {0};

    if (!sa_rate_decide_size(bytes, &rng, &r))
        r.p = 0;
    return r;
}

/* log(100) intervals is where 99 % are reached: certain beyond, not before. */
static void test_rates_are_certain_above_99_percent(void **state)
{
    static const int64_t intervals[] = {1000, MIB / 2, 2 * MIB, 1l << 40};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(intervals); i++) {
        double t = (double)intervals[i], edge = log(100) / -log1p(-1 / t);
        struct sa_rate r;

        assert_true(sa_rate_probability(t, edge * (1 + 1e-9)) == 1);
        assert_near(sa_rate_probability(t, edge * (1 - 1e-9)), 0.99, 1e-9);
        set_interval(intervals[i]);
        r = rate_of_size((size_t)(edge * 1.001));
        assert_true(r.p == 1 && r.interval == 1);
        r = rate_of_size((size_t)(edge * 0.999));
        assert_true(r.p < 1);
        assert_near(r.p, 0.99, 1e-4);
    }
}

static void test_rates_off_and_all(void **state)
{
    static const int64_t off[] = {0, -1, INT64_MIN};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(off); i++) {
        set_interval(off[i]);
        assert_int_equal(sa_rates_interval(), 0);
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
            assert_true(sa_rate_of_class(cls).p == 0);
        assert_true(rate_of_size(1 << 30).p == 0);
    }
    set_interval(1);
    assert_int_equal(sa_rates_interval(), 1);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        assert_true(sa_rate_of_class(cls).p == 1 && sa_rate_of_class(cls).interval == 1);
    assert_true(rate_of_size(1).p == 1);
    set_interval(INT64_MAX);
    assert_int_equal(sa_rates_interval(), INT64_MAX);
    assert_near(sa_rate_of_class(1).p, formula((double)INT64_MAX, sa_size_classes.of[1].size),
                ROUNDING);
}

/* interval and log_fail are those that belong to p. */
static void assert_consistent(struct sa_rate r, double bytes)
{
    if (r.p >= 1) {
        assert_true(r.interval == 1);
        return;
    }
    assert_near(r.log_fail, (double)log1pl(-(long double)r.p), ROUNDING);
    assert_near(formula(r.interval, bytes), r.p, ROUNDING);
}

static void test_rates_of_classes_follow_the_interval(void **state)
{
    static const int64_t intervals[] = {2, 100, 65536, 2 * MIB, 1l << 40};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(intervals); i++) {
        uint32_t before = sa_rates_generation();

        set_interval(intervals[i]);
        assert_int_equal(sa_rates_generation(), before + 1);
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            size_t bytes = sa_size_classes.of[cls].size;
            struct sa_rate r = sa_rate_of_class(cls), same = rate_of_size(bytes);

            assert_int_equal(r.generation, before + 1);
            assert_consistent(r, (double)bytes);
            /* p near 1 loses digits of 1-p, of which T is computed: at p = 0.99, a hundredfold. */
            if (r.p < 1)
                assert_near(r.interval, (double)intervals[i], 100 * ROUNDING);
            assert_true(same.p == r.p && same.interval == r.interval);
        }
    }
}

/* A class with a probability of its own has the interval that would give it; the rest is as
 * before. */
static void test_rates_of_classes_of_their_own(void **state)
{
    double p[SA_CLASSES_MAX] = {0};

    (void)state;
    set_interval(2 * MIB);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        p[cls] = cls % 7 == 0 ? 1 : cls % 7 == 1 ? 0 : pow(10, -(double)(cls % 12)) * 0.9;
    set_classes(p);
    assert_int_equal(sa_rates_interval(), 2 * MIB);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_rate r = sa_rate_of_class(cls);

        assert_true(r.p == p[cls]);
        if (r.p > 0)
            assert_consistent(r, sa_size_classes.of[cls].size);
    }
    assert_near(rate_of_size(4096).p, formula(2.0 * MIB, 4096), ROUNDING);
    set_interval(MIB);
    assert_near(sa_rate_of_class(8).p, formula((double)MIB, sa_size_classes.of[8].size), ROUNDING);
}

/*
 * What may go unseen: the largest T and 1/p of any class now, and of all times before the last
 * change, whose blocks are bounded once it is known how much there was.
 */
static void test_rates_unseen(void **state)
{
    double smallest = sa_size_classes.of[1].size, p[SA_CLASSES_MAX] = {0};
    struct sa_unseen u;

    (void)state;
    sa_rates_init(MIB);
    sa_rates_unseen(&u);
    assert_near(u.bytes, (double)MIB, ROUNDING);
    assert_near(u.blocks, 1 / formula((double)MIB, smallest), ROUNDING);
    assert_true(!u.past_bytes_weight && !u.past_blocks_weight && !u.past_bytes && !u.past_blocks);

    set_interval(1000);
    sa_rates_unseen(&u);
    assert_true(u.past_bytes == INFINITY && u.past_blocks == INFINITY);
    bound_past(4e6);
    set_interval(100);
    bound_past(5e6);
    sa_rates_unseen(&u);
    assert_near(u.bytes, 100, ROUNDING);
    assert_near(u.blocks, 1 / formula(100, smallest), ROUNDING);
    assert_near(u.past_bytes_weight, (double)MIB, ROUNDING);
    assert_near(u.past_blocks_weight, 1 / formula((double)MIB, smallest), ROUNDING);
    assert_true(u.past_bytes == 5e6 && u.past_blocks == 5e6 / smallest);

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        p[cls] = cls == 9 ? 1e-7 : 0.5;
    set_classes(p);
    sa_rates_unseen(&u);
    assert_near(u.blocks, 1e7, ROUNDING);
    assert_near(formula(u.bytes, sa_size_classes.of[9].size), 1e-7, 1e-9);
    p[9] = 0; /* never sampled */
    set_classes(p);
    sa_rates_unseen(&u);
    assert_true(u.bytes == INFINITY && u.blocks == INFINITY);

    sa_rates_init(1);
    sa_rates_unseen(&u);
    assert_true(u.bytes == 0 && u.blocks == 0 && u.past_bytes_weight == 0);
    set_interval(0);
    sa_rates_unseen(&u);
    assert_true(u.bytes == INFINITY && u.blocks == INFINITY && u.past_bytes_weight == 0);
}

#define CHANGES 60000

/* The interval that the test gives to a generation: never the same as in the few before and
 * after. */
static int64_t interval_of(uint32_t generation)
{
    return 1000 + generation % 97 * 64;
}

struct readers {
    struct sa_rate expect[97]; /* of one class */
    unsigned cls;
    uint32_t done; /* atomic */
};

static void read_or_write(int index, void *arg)
{
    struct readers *s = arg;
    uint32_t last = 0;
    uint64_t reads = 0;

    if (index == 0) {
        for (int i = 0; i < CHANGES; i++)
            set_interval(interval_of(sa_rates_generation() + 1));
        __atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
        return;
    }
    while (!__atomic_load_n(&s->done, __ATOMIC_ACQUIRE) || reads < 1000) {
        struct sa_rate r = sa_rate_of_class(s->cls);
        const struct sa_rate *e = &s->expect[r.generation % 97];
        int64_t interval = sa_rates_interval();

        THREAD_CHECK(r.p == e->p && r.interval == e->interval && r.log_fail == e->log_fail);
        THREAD_CHECK(r.generation - last < UINT32_MAX / 2); /* never back */
        THREAD_CHECK(interval >= 1000 && interval <= interval_of(96) && interval % 64 == 1000 % 64);
        last = r.generation;
        reads++;
    }
}

static void test_rates_are_never_seen_mixed(void **state)
{
    static struct readers s = {.cls = 9};

    (void)state;
    for (int i = 0; i < 97; i++) {
        set_interval(interval_of(sa_rates_generation() + 1));
        s.expect[sa_rates_generation() % 97] = sa_rate_of_class(s.cls);
    }
    test_threads_run(3, read_or_write, &s);
    test_threads_check();
}

/*
 * A due sample finds the rate of its generation after up to SA_RATE_COPIES - 2 changes, and never a
 * rate of another generation after more: the table of that generation may be half overwritten.
 */
static void test_rates_outlive_two_changes(void **state)
{
    struct sa_rate then, found;

    (void)state;
    for (int changes = 0; changes <= SA_RATE_COPIES; changes++) {
        set_interval(MIB);
        then = sa_rate_of_class(9);
        for (int i = 1; i <= changes; i++)
            set_interval((1 + i) * MIB);
        if (changes <= SA_RATE_COPIES - 2) {
            assert_true(sa_rate_of_class_at(9, then.generation & 7, 7, &found));
            assert_true(found.generation == then.generation && found.p == then.p);
        } else {
            assert_false(sa_rate_of_class_at(9, then.generation & 7, 7, &found));
        }
    }
}

/* Trials are won as often as the formula says: mostly they end before p is computed. */
static void test_rates_decide_as_often_as_said(void **state)
{
    static const double parts[] = {1e-3, 0.1, 0.5, 1, 2, 4, 5, 8};
    enum { TRIALS = 200000 };
    uint64_t rng = 3;

    (void)state;
    set_interval(2 * MIB);
    for (size_t i = 0; i < TEST_COUNT(parts); i++) {
        size_t bytes = (size_t)(parts[i] * 2 * MIB);
        double p = formula(2.0 * MIB, (double)bytes), won = 0;
        struct sa_rate r;

        p = p > SA_RATE_CERTAIN ? 1 : p;
        for (int k = 0; k < TRIALS; k++)
            if (sa_rate_decide_size(bytes, &rng, &r)) {
                won++;
                assert_near(r.p, p, ROUNDING);
            }
        assert_true(fabs(won - p * TRIALS) <= 5 * sqrt(p * (1 - p) * TRIALS));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rates_follow_the_formula),
        cmocka_unit_test(test_rates_are_certain_above_99_percent),
        cmocka_unit_test(test_rates_off_and_all),
        cmocka_unit_test(test_rates_of_classes_follow_the_interval),
        cmocka_unit_test(test_rates_decide_as_often_as_said),
        cmocka_unit_test(test_rates_of_classes_of_their_own),
        cmocka_unit_test(test_rates_unseen),
        cmocka_unit_test(test_rates_are_never_seen_mixed),
        cmocka_unit_test(test_rates_outlive_two_changes),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("rates", tests, NULL, NULL);
}
