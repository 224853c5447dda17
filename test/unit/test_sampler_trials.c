/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation is one trial with the probability of its class, whatever happens to the caches
 * meanwhile. The number of successes in n allocations is then binomial: np, deviation sqrt(np(1-p)); the
 * tests allow 5 deviations (once in 1.7 million by chance). Seeds are fixed.
 *
 * The clock is the test's: how long a countdown may be depends on how fast the last one ended. Sampled
 * objects are used as if they were not: what becomes of them is test_sampler's.
 */
#include "alloc/front/cpu_cache.h"

#include "alloc/base/size_class.h"
#include "alloc/front/gate.h"
#include "alloc/front/sample_rates.h"
#include "alloc/middle/transfer.h"
#include "alloc/os/rseq.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LIMIT (1024ul * 1024)

static uint64_t now_ns = 1000000000, step_ns; /* atomic: the clock, and what each look at it adds */

int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    uint64_t now =
        __atomic_add_fetch(&now_ns, __atomic_load_n(&step_ns, __ATOMIC_RELAXED), __ATOMIC_RELAXED);

    (void)id;
    *ret = (struct timespec){(time_t)(now / 1000000000), (long)(now % 1000000000)};
    return 0;
}

/* Countdowns end in less than 10 ms, between 10 and 100, and more: they get longer, stay, are short. */
enum pace { BUSY, EVEN, QUIET };

static void set_pace(enum pace pace)
{
    static const uint64_t ms[] = {1, 50, 200};

    __atomic_store_n(&step_ns, ms[pace] * 1000000, __ATOMIC_RELAXED);
}

/* Successes against what they should be. */
struct tally {
    double expected, variance, won;
};

static void *try_alloc(unsigned cls, double p, struct tally *t)
{
    struct sa_trial trial = {.won = false};
    void *obj = sa_percpu_pop(cls);

    if (!obj)
        obj = sa_cpu_cache_alloc(cls, &trial);
    t->expected += p;
    t->variance += p * (1 - p);
    t->won += trial.won;
    return obj;
}

static void give_back(unsigned cls, void *obj)
{
    if (sa_percpu_push(cls, obj) != SA_PUSHED)
        sa_cpu_cache_free(cls, obj);
}

static void assert_fair(const struct tally *t, const char *what)
{
    double error = t->won - t->expected, sigma = sqrt(t->variance);

    if (!(fabs(error) <= 5 * sigma + 1e-9))
        fail_msg("%s: %.0f successes, expected %.1f +- %.1f (%.1f sigma, %+.2f %%)", what, t->won,
                 t->expected, sigma, error / sigma, error / t->expected * 100);
}

static void set_interval(int64_t interval)
{
    assert_true(sa_gate_enter());
    sa_sample_rates_set_interval(interval);
    sa_gate_leave();
}

/* Class and interval: probabilities from 2e-4 to 0.8, and certain. */
static const struct {
    size_t size;
    int64_t interval;
} loads[] = {{16, 80000}, {16, 1600}, {128, 6400}, {1024, 2000}, {16, 10}, {4096, 100}, {48, 1}};

/* Runs a pattern for every load at every pace. */
static void check_pattern(const char *what, int n,
                          void (*pattern)(unsigned cls, double p, int n, struct tally *t))
{
    for (enum pace pace = BUSY; pace <= QUIET; pace++) {
        for (size_t i = 0; i < TEST_COUNT(loads); i++) {
            unsigned cls = sa_size_class_find(loads[i].size);
            struct tally t = {0};
            char name[100];

            set_pace(pace);
            set_interval(loads[i].interval);
            pattern(cls, sa_rate_of_class(cls).p, n, &t);
            snprintf(name, sizeof(name), "%s, pace %d, size %zu, interval %ld", what, (int)pace,
                     loads[i].size, (long)loads[i].interval);
            assert_fair(&t, name);
        }
    }
}

static void cycle(unsigned cls, double p, int n, struct tally *t)
{
    while (n--)
        give_back(cls, try_alloc(cls, p, t));
}

/* One object comes and goes inside the cache: no miss ever. */
static void test_trials_of_an_object_that_cycles(void **state)
{
    (void)state;
    check_pattern("cycle", 1000000, cycle);
}

static void keep(unsigned cls, double p, int n, struct tally *t)
{
    static void *kept[20000];

    for (int most = n < 20000 ? n : 20000; n > 0; n -= most) {
        for (int i = 0; i < most; i++)
            kept[i] = try_alloc(cls, p, t);
        for (int i = 0; i < most; i++)
            give_back(cls, kept[i]);
        sa_cpu_cache_drain(-1);
    }
}

/* Every block is kept: the caches are refilled again and again, and the objects of the refill itself count. */
static void test_trials_of_objects_that_are_kept(void **state)
{
    (void)state;
    check_pattern("kept", 200000, keep);
}

static void kicked(unsigned cls, double p, int n, struct tally *t)
{
    struct test_random r = {0x61c6};

    while (n > 0) {
        int some = 1 + (int)test_random_below(&r, 600);

        sa_cpu_cache_kick();
        cycle(cls, p, some, t);
        n -= some;
    }
}

static void test_trials_under_kicks(void **state)
{
    (void)state;
    check_pattern("kicked", 500000, kicked);
}

static void drained(unsigned cls, double p, int n, struct tally *t)
{
    struct test_random r = {0xd2a1};

    while (n > 0) {
        int some = 1 + (int)test_random_below(&r, 100);

        sa_cpu_cache_drain(-1);
        cycle(cls, p, some, t);
        n -= some;
    }
}

static void test_trials_under_drains(void **state)
{
    (void)state;
    check_pattern("drained", 200000, drained);
}

/* Capacity changes all the time, down to nothing; other classes take it away, too. */
static void shrunk(unsigned cls, double p, int n, struct tally *t)
{
    struct test_random r = {0x542};
    void *held[64] = {NULL};
    struct tally others = {0};

    while (n > 0) {
        int some = 1 + (int)test_random_below(&r, 2000);

        sa_cpu_cache_set_limit(test_random_below(&r, 4) ? test_random_below(&r, 100000) : 0);
        for (int i = 0; i < some; i++) {
            size_t at = test_random_below(&r, 64);

            if (held[at])
                give_back(cls, held[at]);
            held[at] = try_alloc(cls, p, t);
            if (i % 4 == 0)
                cycle(30 + (unsigned)i % 16, 0, 1, &others);
        }
        n -= some;
    }
    for (int i = 0; i < 64; i++)
        if (held[i])
            give_back(cls, held[i]);
    sa_cpu_cache_set_limit(LIMIT);
}

static void test_trials_while_capacity_changes(void **state)
{
    (void)state;
    check_pattern("shrunk", 200000, shrunk);
}

/* No cache at all: all go past it. */
static void test_trials_without_a_cache(void **state)
{
    (void)state;
    sa_cpu_cache_set_limit(0);
    check_pattern("no cache", 60000, cycle);
    sa_cpu_cache_set_limit(LIMIT);
}

/* All classes mixed at random with everything that disturbs them. */
static void disturb(struct test_random *r)
{
    switch (test_random_below(r, 5)) {
    case 0:
        sa_cpu_cache_kick();
        break;
    case 1:
        sa_cpu_cache_drain(-1);
        break;
    case 2:
        sa_cpu_cache_tick();
        break;
    case 3:
        sa_transfer_plunder();
        break;
    default:
        if (sa_rseq.per_cpu) {
            sa_cpu_cache_stop_all();
            sa_cpu_cache_resume_all();
        }
    }
}

static void mixed(struct test_random *r, const double *p, int n, int calm, struct tally *t)
{
    enum { HELD = 500 };
    struct {
        void *obj;
        unsigned cls;
    } held[HELD] = {{NULL, 0}};

    for (int i = 0; i < n; i++) {
        size_t at = test_random_below(r, HELD);

        if (held[at].obj)
            give_back(held[at].cls, held[at].obj);
        held[at].cls = 1 + (unsigned)test_random_below(r, 24);
        held[at].obj = try_alloc(held[at].cls, p[held[at].cls], t);
        if (test_random_below(r, (size_t)calm) == 0)
            disturb(r);
    }
    for (size_t i = 0; i < HELD; i++)
        if (held[i].obj)
            give_back(held[i].cls, held[i].obj);
}

static void probabilities(double *p)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        p[cls] = sa_rate_of_class(cls).p;
}

static void test_trials_of_mixed_classes(void **state)
{
    struct test_random r = {0x313};
    double p[SA_CLASSES_MAX];

    (void)state;
    for (enum pace pace = BUSY; pace <= QUIET; pace++) {
        struct tally t = {0};

        set_pace(pace);
        set_interval(5000);
        probabilities(p);
        mixed(&r, p, 1000000, 500, &t);
        assert_fair(&t, "mixed");
    }
}

/* The interval changes in the middle, also to none and all: each allocation has the one of its time. */
static void test_trials_across_interval_changes(void **state)
{
    static const int64_t intervals[] = {1000, 0, 2000000, 1, 50000, 300, 1 << 20};
    struct test_random r = {0x1e7};
    double p[SA_CLASSES_MAX];
    struct tally all = {0}, none = {0}, certain = {0};

    (void)state;
    for (enum pace pace = BUSY; pace <= QUIET; pace++) {
        set_pace(pace);
        for (int i = 0; i < 3000; i++) {
            int64_t interval = intervals[test_random_below(&r, TEST_COUNT(intervals))];

            set_interval(interval);
            probabilities(p);
            mixed(&r, p, 1 + (int)test_random_below(&r, 100), 100,
                  interval == 0   ? &none
                  : interval == 1 ? &certain
                                  : &all);
        }
    }
    assert_fair(&all, "changes");
    assert_true(none.won == 0);
    assert_true(certain.won == certain.expected);
}

/* Classes may have any probability, and get others while countdowns run. */
static void test_trials_with_rates_of_their_own(void **state)
{
    struct test_random r = {0x0e0};
    struct tally t = {0};
    double p[SA_CLASSES_MAX] = {0};

    (void)state;
    set_pace(BUSY);
    for (int i = 0; i < 200; i++) {
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
            p[cls] = pow(10, -(double)test_random_below(&r, 500) / 100);
        sa_rates_set_classes(p);
        sa_cpu_cache_rearm();
        mixed(&r, p, 5000, 2000, &t);
    }
    assert_fair(&t, "own rates");
}

/*
 * Where in a pattern an allocation stands says nothing about its chance: after every kick the first is
 * sampled as often as the 40th.
 */
static void test_trials_do_not_know_their_place(void **state)
{
    enum { PLACES = 40, ROUNDS = 20000 };
    struct tally t[PLACES] = {{0}};
    unsigned cls = sa_size_class_find(16);
    double p;

    (void)state;
    for (enum pace pace = BUSY; pace <= QUIET; pace++) {
        set_pace(pace);
        set_interval(200);
        p = sa_rate_of_class(cls).p;
        for (int i = 0; i < ROUNDS; i++) {
            sa_cpu_cache_kick();
            for (int place = 0; place < PLACES; place++)
                cycle(cls, p, 1, &t[place]);
        }
    }
    for (int place = 0; place < PLACES; place++)
        assert_fair(&t[place], "a place after a kick");
}

/* Numbers of failures between two successes are geometric. */
enum { CELLS = 20 };

/* The cell of a number of failures: by the distribution function, so that all are about alike. */
static int cell_of(double gap, double p)
{
    return (int)(-expm1((gap + 0.5) * log1p(-p)) * CELLS);
}

static void test_trials_are_independent(void **state)
{
    unsigned cls = sa_size_class_find(16);
    double p, seen[CELLS] = {0}, expected[CELLS] = {0}, chi = 0, gap = 0, won = 0;

    (void)state;
    set_pace(QUIET);
    set_interval(600);
    p = sa_rate_of_class(cls).p;
    for (int i = 0; i < 3000000; i++, gap++) {
        struct tally t = {0};

        cycle(cls, p, 1, &t);
        if (t.won > 0) {
            seen[cell_of(gap, p)]++;
            won++;
            gap = -1;
        }
    }
    for (double g = 0; g < 30 / p; g++)
        expected[cell_of(g, p)] += p * exp(g * log1p(-p));
    for (int i = 0; i < CELLS; i++)
        chi += pow(seen[i] - won * expected[i], 2) / (won * expected[i]);
    /* 19 degrees of freedom; the threshold is that of test_draw. */
    assert_true(chi <= CELLS - 1 + 6 * sqrt(2.0 * (CELLS - 1)));
}

/*
 * The interval changes at the worst moment: a slow path has read the old probability and has yet to draw by
 * it. What it draws must not outlive the change.
 */
static int64_t change_to = -1;

struct sa_rate __real_sa_rate_of_class(unsigned cls);
struct sa_rate __wrap_sa_rate_of_class(unsigned cls);

struct sa_rate __wrap_sa_rate_of_class(unsigned cls)
{
    struct sa_rate r = __real_sa_rate_of_class(cls);
    int64_t to = change_to;

    if (SA_UNLIKELY(to >= 0)) {
        change_to = -1;
        set_interval(to);
    }
    return r;
}

static void test_trials_change_under_a_draw(void **state)
{
    static const int64_t intervals[] = {0, 1, 1000};
    unsigned cls = sa_size_class_find(64);

    (void)state;
    set_pace(EVEN);
    for (int i = 0; i < 9; i++) {
        double p = sa_rate_probability((double)intervals[i % 3], 64);
        struct tally t = {0};

        for (int n = 0; n < 200; n++) {
            struct tally before = {0};

            set_interval(intervals[i / 3]);
            cycle(cls, 0, 1, &before);
            change_to = intervals[i % 3];
            while (change_to >= 0)
                cycle(cls, 0, 1, &before);
            cycle(cls, p, 20, &t);
        }
        assert_fair(&t, "changed under a draw");
    }
}

/* --- threads ----------------------------------------------------------------------------------- */

#define THREADS 4

struct load {
    struct tally tally[THREADS];
    double p[SA_CLASSES_MAX];
    int cpus; /* pinned to so many; 0: each wanders about */
};

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void load_in_thread(int index, void *arg)
{
    struct load *load = arg;
    struct test_random r = {0x7ead + (uint64_t)index};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    for (int i = 0; i < 100; i++) {
        if (load->cpus && i == 0)
            pin(index % load->cpus % (int)cpus);
        else if (!load->cpus)
            pin((int)test_random_below(&r, (size_t)cpus));
        mixed(&r, load->p, 3000, 300, &load->tally[index]);
    }
}

static void check_threads(int cpus, const char *what)
{
    struct load load = {.cpus = cpus};
    struct tally sum = {0};

    set_interval(3000);
    probabilities(load.p);
    test_threads_run(THREADS, load_in_thread, &load);
    for (int i = 0; i < THREADS; i++) {
        sum.expected += load.tally[i].expected;
        sum.variance += load.tally[i].variance;
        sum.won += load.tally[i].won;
        assert_fair(&load.tally[i], what);
    }
    assert_fair(&sum, what);
}

static void test_trials_of_threads_on_one_cpu(void **state)
{
    (void)state;
    set_pace(QUIET);
    check_threads(1, "one CPU");
}

static void test_trials_of_threads_on_two_cpus(void **state)
{
    (void)state;
    set_pace(EVEN);
    check_threads(2, "two CPUs");
}

static void test_trials_of_threads_that_migrate(void **state)
{
    (void)state;
    set_pace(QUIET);
    check_threads(0, "migrating");
}

/* One thread changes the interval between none and all while others allocate: it takes effect at once. */
struct switching {
    uint32_t phase; /* atomic: even: off, odd: all; the upper bits count */
    uint32_t done;
};

static void switch_or_allocate(int index, void *arg)
{
    struct switching *s = arg;
    unsigned cls = sa_size_class_find(64);

    pin(index % (int)sysconf(_SC_NPROCESSORS_ONLN));
    if (index == 0) {
        for (uint32_t i = 1; i <= 300; i++) {
            THREAD_CHECK(sa_gate_enter());
            sa_sample_rates_set_interval(i % 2);
            sa_gate_leave();
            __atomic_store_n(&s->phase, i, __ATOMIC_SEQ_CST);
            nanosleep(&(struct timespec){0, 200000}, NULL);
            __atomic_store_n(&s->phase, 0, __ATOMIC_SEQ_CST); /* being changed */
        }
        __atomic_store_n(&s->done, 1, __ATOMIC_SEQ_CST);
        return;
    }
    while (!__atomic_load_n(&s->done, __ATOMIC_SEQ_CST)) {
        uint32_t before = __atomic_load_n(&s->phase, __ATOMIC_SEQ_CST);
        struct tally t = {0};
        void *obj = try_alloc(cls, 0, &t);

        give_back(cls, obj);
        if (before && before == __atomic_load_n(&s->phase, __ATOMIC_SEQ_CST))
            THREAD_CHECK(t.won == before % 2);
    }
}

static void test_trials_change_at_once_in_all_threads(void **state)
{
    struct switching s = {0, 0};

    (void)state;
    set_pace(BUSY);
    test_threads_run(3, switch_or_allocate, &s);
    test_threads_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trials_of_an_object_that_cycles),
        cmocka_unit_test(test_trials_of_objects_that_are_kept),
        cmocka_unit_test(test_trials_under_kicks),
        cmocka_unit_test(test_trials_under_drains),
        cmocka_unit_test(test_trials_while_capacity_changes),
        cmocka_unit_test(test_trials_without_a_cache),
        cmocka_unit_test(test_trials_of_mixed_classes),
        cmocka_unit_test(test_trials_across_interval_changes),
        cmocka_unit_test(test_trials_with_rates_of_their_own),
        cmocka_unit_test(test_trials_do_not_know_their_place),
        cmocka_unit_test(test_trials_are_independent),
        cmocka_unit_test(test_trials_change_under_a_draw),
        cmocka_unit_test(test_trials_of_threads_on_one_cpu),
        cmocka_unit_test(test_trials_of_threads_on_two_cpus),
        cmocka_unit_test(test_trials_of_threads_that_migrate),
        cmocka_unit_test(test_trials_change_at_once_in_all_threads),
    };

    sa_sampler_init(0, 1);
    test_start_floors();
    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("sampler_trials", tests, NULL, NULL);
}
