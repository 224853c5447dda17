/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of a thread is one sampling decision with the probability of its class,
 * whatever happens to the caches meanwhile. test/support/sampling_decisions.h derives the
 * tolerances. */
#include "test/support/sampling_decisions.h"

#include "alloc/base/attrs.h"
#include "test/support/start.h"

#include <stdio.h>

#define LIMIT (1024ul * 1024)

/* Class and interval: probabilities from 2e-4 to 0.8, and certain. */
static const struct {
    size_t size;
    int64_t interval;
} loads[] = {{16, 80000}, {16, 1600}, {128, 6400}, {1024, 2000}, {16, 10}, {4096, 100}, {48, 1}};

/* Runs a pattern for every load at every pace. */
static void check_pattern(const char *what, int n,
                          void (*pattern)(unsigned cls, double p, int n, struct tally *t))
{
    n /= SA_TSAN ? 10 : 1; /* slow there; tolerances follow n */
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

/* One object comes and goes inside the cache: no miss ever. */
static void test_decisions_of_an_object_that_cycles(void **state)
{
    (void)state;
    check_pattern("cycle", 1000000, cycle);
}

static void keep(unsigned cls, double p, int n, struct tally *t)
{
    static void *kept[20000];

    for (int max = n < 20000 ? n : 20000; n > 0; n -= max) {
        for (int i = 0; i < max; i++)
            kept[i] = try_alloc(cls, p, t);
        for (int i = 0; i < max; i++)
            give_back(cls, kept[i]);
        sa_cpu_cache_drain(-1);
    }
}

/* Every block is kept: the caches are refilled again and again, and the objects of the refill
 * itself count. */
static void test_decisions_of_objects_that_are_kept(void **state)
{
    (void)state;
    check_pattern("kept", 200000, keep);
}

/* Cycles objects, with something done to the caches after at most `most` of them. */
static void cycle_between(void (*act)(void), uint64_t most, unsigned cls, double p, int n,
                          struct tally *t)
{
    struct test_random r = {0x61c6};

    while (n > 0) {
        int some = 1 + (int)test_random_below(&r, most);

        act();
        cycle(cls, p, some, t);
        n -= some;
    }
}

static void kicked(unsigned cls, double p, int n, struct tally *t)
{
    cycle_between(sa_cpu_cache_kick, 600, cls, p, n, t);
}

static void test_decisions_under_kicks(void **state)
{
    (void)state;
    check_pattern("kicked", 500000, kicked);
}

static void drain(void)
{
    sa_cpu_cache_drain(-1);
}

static void drained(unsigned cls, double p, int n, struct tally *t)
{
    cycle_between(drain, 100, cls, p, n, t);
}

static void test_decisions_under_drains(void **state)
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

static void test_decisions_while_capacity_changes(void **state)
{
    (void)state;
    check_pattern("shrunk", 200000, shrunk);
}

/* No cache at all: all go past it. */
static void test_decisions_without_a_cache(void **state)
{
    (void)state;
    sa_cpu_cache_set_limit(0);
    check_pattern("no cache", 60000, cycle);
    sa_cpu_cache_set_limit(LIMIT);
}

static void test_decisions_of_mixed_classes(void **state)
{
    struct test_random r = {0x313};
    double p[SA_CLASSES_MAX];

    (void)state;
    for (enum pace pace = BUSY; pace <= QUIET; pace++) {
        struct tally t = {0};

        set_pace(pace);
        set_interval(5000);
        probabilities(p);
        mixed(&r, p, SA_TSAN ? 100000 : 1000000, 500, &t);
        assert_fair(&t, "mixed");
    }
}

/*
 * Where in a pattern an allocation stands says nothing about its chance: after every kick the first
 * is sampled as often as the 40th.
 */
static void test_decisions_do_not_know_their_place(void **state)
{
    enum { PLACES = 40, ROUNDS = SA_TSAN ? 2000 : 20000 };
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

static void test_decisions_are_independent(void **state)
{
    unsigned cls = sa_size_class_find(16);
    double p, seen[CELLS] = {0}, expected[CELLS] = {0}, chi = 0, gap = 0, sampled = 0;

    (void)state;
    set_pace(QUIET);
    set_interval(600);
    p = sa_rate_of_class(cls).p;
    for (int i = 0; i < (SA_TSAN ? 300000 : 3000000); i++, gap++) {
        struct tally t = {0};

        cycle(cls, p, 1, &t);
        if (t.sampled > 0) {
            seen[cell_of(gap, p)]++;
            sampled++;
            gap = -1;
        }
    }
    for (double g = 0; g < 30 / p; g++)
        expected[cell_of(g, p)] += p * exp(g * log1p(-p));
    for (int i = 0; i < CELLS; i++)
        chi += pow(seen[i] - sampled * expected[i], 2) / (sampled * expected[i]);
    /* 19 degrees of freedom; the threshold is that of test_draw. */
    assert_true(chi <= CELLS - 1 + 6 * sqrt(2.0 * (CELLS - 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions_of_an_object_that_cycles),
        cmocka_unit_test(test_decisions_of_objects_that_are_kept),
        cmocka_unit_test(test_decisions_under_kicks),
        cmocka_unit_test(test_decisions_under_drains),
        cmocka_unit_test(test_decisions_while_capacity_changes),
        cmocka_unit_test(test_decisions_without_a_cache),
        cmocka_unit_test(test_decisions_of_mixed_classes),
        cmocka_unit_test(test_decisions_do_not_know_their_place),
        cmocka_unit_test(test_decisions_are_independent),
    };

    test_start_layers();
    sa_sampler_init(0, 1);
    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("sampler_decisions", tests, NULL, NULL);
}
