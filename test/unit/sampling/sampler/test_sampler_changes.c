/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation is one sampling decision with the probability of its class at that time: also
 * when probabilities change while countdowns run, and when threads share CPUs.
 * test/support/sampling_decisions.h derives the tolerances. */
#include "test/support/sampling_decisions.h"

#include "alloc/os/lock.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#define LIMIT (1024ul * 1024)

/* Stands for the lock of alloc/maintain/sample_rates.c, which changes of rates require. */
static struct sa_lock rates_lock;

/* The interval changes in the middle, also to none and all: each allocation has the one of its
 * time. */
static void test_decisions_across_interval_changes(void **state)
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
    assert_true(none.sampled == 0);
    assert_true(certain.sampled == certain.expected);
}

/* Classes may have any probability, and get others while countdowns run. */
static void test_decisions_with_rates_of_their_own(void **state)
{
    struct test_random r = {0x0e0};
    struct tally t = {0};
    double p[SA_CLASSES_MAX] = {0};

    (void)state;
    set_pace(BUSY);
    for (int i = 0; i < 200; i++) {
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
            p[cls] = pow(10, -(double)test_random_below(&r, 500) / 100);
        sa_lock_acquire(&rates_lock, SA_RANK_RATES);
        sa_rates_set_classes(p);
        sa_cpu_cache_rearm();
        sa_lock_release(&rates_lock, SA_RANK_RATES);
        mixed(&r, p, 5000, 2000, &t);
    }
    assert_fair(&t, "own rates");
}

/*
 * The interval changes at the worst moment: a slow path has read the old probability, or has seen
 * that the one it claimed still holds, and has yet to draw by it. What it draws must not outlive
 * the change.
 */
static int64_t change_to = -1;

static void change_now(void)
{
    int64_t to = change_to;

    if (SA_UNLIKELY(to >= 0)) {
        change_to = -1;
        set_interval(to);
    }
}

struct sa_rate __real_sa_rate_of_class(unsigned cls);
struct sa_rate __wrap_sa_rate_of_class(unsigned cls);

struct sa_rate __wrap_sa_rate_of_class(unsigned cls)
{
    struct sa_rate r = __real_sa_rate_of_class(cls);

    change_now();
    return r;
}

uint32_t __real_sa_rates_generation(void);
uint32_t __wrap_sa_rates_generation(void);

uint32_t __wrap_sa_rates_generation(void)
{
    uint32_t generation = __real_sa_rates_generation();

    change_now();
    return generation;
}

static void test_decisions_change_under_a_draw(void **state)
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

/* Countdowns that run, or are cut short, are counted as far as they have come. */
static void test_decisions_are_counted_once(void **state)
{
    enum { ROUNDS = 100, EACH = 1000 };
    unsigned cls = sa_size_class_find(64);
    struct sa_cpu_class_stats before, after;
    struct tally t = {0};

    (void)state;
    set_pace(BUSY);
    set_interval(1 << 30);
    sa_cpu_cache_class_stats(cls, &before);
    for (int i = 0; i < ROUNDS; i++) {
        cycle(cls, 0, EACH, &t);
        set_interval(1 << 30);
    }
    sa_cpu_cache_class_stats(cls, &after);
    assert_int_equal(after.allocations - before.allocations, ROUNDS * EACH);
    assert_int_equal(after.frees - before.frees, ROUNDS * EACH);
}

/* Handlers of fork may change the interval: caches that the fork has stopped stay so. */
static void test_decisions_change_in_the_middle_of_a_fork(void **state)
{
    unsigned cls = sa_size_class_find(64);
    struct tally t = {0};

    (void)state;
    if (!sa_rseq.per_cpu)
        TEST_SKIP("caches of threads are not stopped");
    set_interval(0);
    cycle(cls, 0, 10, &t);
    sa_fork_gate_close();
    assert_true(sa_cpu_cache_stop_all());
    set_interval(1);
    sa_cpu_cache_set_limit(LIMIT - 1); /* empties them */
    cycle(cls, 1, 10, &t);
    for (int cpu = 0; cpu < sa_cpu_cache_count(); cpu++)
        assert_ptr_equal(sa_hot.slabs[cpu], &sa_slab_empty);
    sa_cpu_cache_resume_all();
    sa_fork_gate_open();
    cycle(cls, 1, 10, &t);
    assert_true(t.sampled == t.expected);
    sa_cpu_cache_set_limit(LIMIT);
}

/* --- threads --- */

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
        sum.sampled += load.tally[i].sampled;
        assert_fair(&load.tally[i], what);
    }
    assert_fair(&sum, what);
}

static void test_decisions_of_threads_on_one_cpu(void **state)
{
    (void)state;
    set_pace(QUIET);
    check_threads(1, "one CPU");
}

static void test_decisions_of_threads_on_two_cpus(void **state)
{
    (void)state;
    set_pace(EVEN);
    check_threads(2, "two CPUs");
}

static void test_decisions_of_threads_that_migrate(void **state)
{
    (void)state;
    set_pace(QUIET);
    check_threads(0, "migrating");
}

/* One thread changes the interval between none and all while others allocate: it takes effect at
 * once. */
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
            THREAD_CHECK(sa_fork_gate_enter());
            sa_sample_rates_set_interval(i % 2);
            sa_fork_gate_leave();
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
            THREAD_CHECK(t.sampled == before % 2);
    }
}

static void test_decisions_change_at_once_in_all_threads(void **state)
{
    struct switching s = {0, 0};

    (void)state;
    set_pace(BUSY);
    test_threads_run(3, switch_or_allocate, &s);
    test_threads_check();
}

/*
 * Changes that do not wait for what was drawn. Each success counts as 1/p blocks with the p that it
 * comes with: the sum must be the number of allocations, but for what is expected of it by chance:
 * 5 deviations.
 */
struct weighed {
    double allocations, weights, variance;
};

static void weigh(unsigned cls, struct weighed *w)
{
    struct sa_sampling_decision decision = {.sampled = false};
    void *obj = sa_percpu_pop(cls);

    if (!obj) {
        sa_cpu_cache_claim(cls, &decision);
        if (sa_fork_gate_enter()) {
            obj = sa_cpu_cache_alloc(cls, &decision);
            sa_fork_gate_leave();
        }
    }
    THREAD_CHECK(obj != NULL);
    w->allocations++;
    if (decision.sampled) {
        w->weights += 1 / decision.rate.p;
        /* Of n trials (1-p)/p each: of a success, of which there are n p, (1-p)/p^2. */
        w->variance += (1 - decision.rate.p) / (decision.rate.p * decision.rate.p);
    }
    give_back(cls, obj);
}

static void assert_weight(const struct weighed *w)
{
    double off = (w->weights - w->allocations) / sqrt(w->variance);

    print_message("# %.0f allocations, estimated %.0f: %.4f, %+.1f deviations\n", w->allocations,
                  w->weights, w->weights / w->allocations, off);
    assert_true(fabs(off) <= 5);
}

/* Between the moment at which new probabilities are there and that at which a CPU's countdowns are
 * voided, both failures and successes are the old ones'. */
static void test_decisions_until_a_change_arrives(void **state)
{
    unsigned cls = sa_size_class_find(64);
    struct test_random r = {0xa221};
    struct weighed w = {0};

    (void)state;
    set_pace(BUSY);
    set_interval(500);
    for (int i = 0; i < 20000; i++) {
        sa_lock_acquire(&rates_lock, SA_RANK_RATES);
        sa_rates_set_interval(i % 2 ? 300 : 500);
        sa_lock_release(&rates_lock, SA_RANK_RATES);
        for (size_t n = test_random_below(&r, 10); n; n--)
            weigh(cls, &w);
        sa_cpu_cache_rearm();
        for (size_t n = test_random_below(&r, 10); n; n--)
            weigh(cls, &w);
    }
    test_threads_check();
    assert_weight(&w);
}

/* One thread changes the interval without a pause while others allocate. With SALLOC_TEST_FULL=1
 * 100000 times. Where nothing is stopped a change takes less than a microsecond, and the
 * nanoseconds until a success is claimed would show: one in 20. */
struct storming {
    uint32_t done; /* atomic */
    int changes;
    struct weighed of[THREADS];
};

static void pause_without_fence(void)
{
    struct timespec from, to;

    if (sa_rseq.per_cpu)
        return;
    timespec_get(&from, TIME_UTC);
    do
        timespec_get(&to, TIME_UTC);
    while ((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec < 20000);
}

static void change_or_allocate(int index, void *arg)
{
    struct storming *s = arg;
    unsigned cls = sa_size_class_find(64);

    if (index == 0) {
        for (int i = 0; i < s->changes; i++) {
            THREAD_CHECK(sa_fork_gate_enter());
            sa_sample_rates_set_interval(i % 2 ? 300 : 500);
            sa_fork_gate_leave();
            pause_without_fence();
        }
        __atomic_store_n(&s->done, 1, __ATOMIC_SEQ_CST);
        return;
    }
    while (!__atomic_load_n(&s->done, __ATOMIC_RELAXED))
        weigh(cls, &s->of[index]);
}

static void test_decisions_change_without_pause(void **state)
{
    struct storming s = {.changes = getenv("SALLOC_TEST_FULL") ? 100000 : 20000};
    struct weighed all = {0};

    (void)state;
#ifdef SA_PREEMPT
    /* A change between a success and its claim voids it (doc/sampling.md). Without rseq nothing but
     * the few nanoseconds between the two makes that rare, and this build holds threads up in
     * between. */
    if (!test_per_cpu())
        TEST_SKIP("a thread that is held up between a success and its claim");
#endif
    set_pace(BUSY);
    set_interval(500);
    test_threads_run(3, change_or_allocate, &s);
    test_threads_check();
    for (int i = 0; i < THREADS; i++) {
        all.allocations += s.of[i].allocations;
        all.weights += s.of[i].weights;
        all.variance += s.of[i].variance;
    }
    assert_weight(&all);
}

/* A change reaches a cache although somebody asks for all caches to be emptied before its owner
 * comes by. */
static void change_and_drain(int index, void *arg)
{
    uint32_t *stage = arg; /* atomic */
    unsigned cls = sa_size_class_find(64);
    struct tally t = {0};

    if (index == 0) {
        while (__atomic_load_n(stage, __ATOMIC_ACQUIRE) == 0)
            ;
        THREAD_CHECK(sa_fork_gate_enter());
        sa_sample_rates_set_interval(1);
        sa_cpu_cache_drain(-1);
        sa_fork_gate_leave();
        __atomic_store_n(stage, 2, __ATOMIC_RELEASE);
        return;
    }
    cycle(cls, 0, 100, &t); /* some countdown runs */
    __atomic_store_n(stage, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(stage, __ATOMIC_ACQUIRE) == 1)
        ;
    t = (struct tally){0};
    cycle(cls, 1, 10, &t);
    THREAD_CHECK(t.sampled == 10);
}

static void test_decisions_change_in_drained_caches(void **state)
{
    uint32_t stage = 0;

    (void)state;
    set_pace(BUSY);
    set_interval(0);
    test_threads_run(2, change_and_drain, &stage);
    test_threads_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_across_interval_changes),
        cmocka_unit_test(test_decisions_with_rates_of_their_own),
        cmocka_unit_test(test_decisions_change_under_a_draw),
        cmocka_unit_test(test_decisions_are_counted_once),
        cmocka_unit_test(test_decisions_change_in_the_middle_of_a_fork),
        cmocka_unit_test(test_decisions_of_threads_on_one_cpu),
        cmocka_unit_test(test_decisions_of_threads_on_two_cpus),
        cmocka_unit_test(test_decisions_of_threads_that_migrate),
        cmocka_unit_test(test_decisions_change_at_once_in_all_threads),
        cmocka_unit_test(test_decisions_until_a_change_arrives),
        cmocka_unit_test(test_decisions_change_without_pause),
        cmocka_unit_test(test_decisions_change_in_drained_caches),
    };

    test_start_layers();
    sa_sampler_init(0, 1);
    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("sampler_changes", tests, NULL, NULL);
}
