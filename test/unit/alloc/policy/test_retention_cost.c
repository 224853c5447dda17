/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rule for free memory costs, against the optimum that knows the future (optimum.h), if
 * pages are interchangeable. Ticks come every half second. A level is kept for tau less a slot of
 * the window at least, and for tau and a tick at most. So the cost is at most 1 + (tau + tick) /
 * tau = 2.2 times the optimum, at the shortest tau, and what slack may hold in addition.
 */
#include "alloc/policy/optimum.h"
#include "alloc/policy/retention.h"

#include "alloc/base/bits.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <string.h>

#define SECOND   1000000000ull
#define TICK_NS  (SECOND / 2)
#define STEPS    200
#define ATTEMPTS 10000
#define RATIO    2.2

/* A program whose memory follows the rule. Copied where two futures are tried. */
struct program {
    struct sa_retention w;
    struct sa_optimum optimum;
    struct sa_optimum_fall falls[STEPS + 1];
    bool slack;
    uint64_t now_ns, tick_ns;
    size_t used, backed, most;
    double cost;
};

static void program_begin(struct program *p, double tau_s, bool slack)
{
    *p = (struct program){.w.tau_ns = (uint64_t)(tau_s * 1e9), .slack = slack};
    p->optimum.hold = 1;
    p->optimum.touch = tau_s;
    p->tick_ns = TICK_NS;
}

static void program_pass(struct program *p, uint64_t ns)
{
    uint64_t end = p->now_ns + ns;

    while (p->now_ns < end) {
        uint64_t next = sa_min(end, p->tick_ns);

        p->cost += (double)(p->backed - p->used) * (double)(next - p->now_ns) / 1e9;
        p->now_ns = next;
        if (next != p->tick_ns)
            continue;
        p->tick_ns += TICK_NS;
        sa_retention_note(&p->w, next, p->used);
        p->backed = sa_min(p->backed, p->slack ? sa_retention_target(&p->w, p->used)
                                               : sa_retention_max(&p->w, p->used));
    }
}

static void program_use(struct program *p, size_t used)
{
    if (used < p->used)
        sa_retention_note(&p->w, p->now_ns, p->used);
    if (used > p->backed) {
        p->cost += (double)(used - p->backed) * p->optimum.touch;
        p->backed = used;
    }
    p->used = used;
    p->most = sa_max(p->most, used);
    p->optimum.falls = p->falls; /* this may be a copy */
    sa_optimum_use(&p->optimum, p->now_ns, used);
}

/* What is free at the end has cost nothing in the optimum, so it is taken back. */
static void program_check(struct program *p)
{
    double slack = 0;

    if (p->slack)
        slack = (double)sa_retention_slack(p->most) * (double)p->now_ns / 1e9;
    program_use(p, p->most);
    assert_true(p->cost <= RATIO * p->optimum.cost * (1 + 1e-9) + slack);
}

static void test_optimum_is_the_least_of_all_choices(void **state)
{
    struct sa_optimum_fall falls[8];
    struct sa_optimum o = {.hold = 1, .touch = 3, .falls = falls};

    (void)state;
    sa_optimum_use(&o, 0, 10);         /* 30 */
    sa_optimum_use(&o, SECOND, 4);     /* 6 are free */
    sa_optimum_use(&o, 2 * SECOND, 2); /* and 2 more */
    sa_optimum_use(&o, 4 * SECOND, 5); /* 2 for 2 s, 1 for 3 s */
    assert_true(o.cost == 30 + 4 + 3);
    sa_optimum_use(&o, 9 * SECOND, 12); /* 5 go back, 2 are new */
    assert_true(o.cost == 37 + 15 + 6);
    assert_int_equal(o.top, 12);
    sa_optimum_use(&o, 10 * SECOND, 0);
    assert_true(o.cost == 58);
}

static void test_random_uses_cost_at_most_the_bound(void **state)
{
    static const double taus[] = {2.5, 4, 10, 33};
    struct test_random r = {0xc057};
    struct program p;

    (void)state;
    for (int i = 0; i < ATTEMPTS; i++) {
        unsigned bits = 4 + (unsigned)test_random_below(&r, 16);
        unsigned steps = 1 + (unsigned)test_random_below(&r, i % 50 ? 24 : STEPS);

        program_begin(&p, taus[i % 4], test_random_below(&r, 2));
        for (unsigned step = 0; step < steps; step++) {
            program_use(&p, test_random_size(&r, bits));
            program_pass(&p, test_random_below(&r, 2 * p.w.tau_ns) >> test_random_below(&r, 8));
        }
        program_check(&p);
    }
}

/* Back just after the pages went, and just before. */
static void test_adversaries_cost_at_most_the_bound(void **state)
{
    struct test_random r = {0xadbe};
    struct program p;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        size_t high = 100 + test_random_size(&r, 20);

        program_begin(&p, 2.5 + (double)test_random_below(&r, 3) * 4, i % 2);
        for (unsigned step = 0; step < STEPS / 2; step++) {
            program_use(&p, high);
            program_pass(&p, test_random_below(&r, SECOND));
            program_use(&p, test_random_below(&r, high));
            if (i % 5 == 0)
                program_pass(&p, p.w.tau_ns - test_random_below(&r, TICK_NS));
            for (int n = 0; n < 200 && p.backed > p.used + sa_retention_slack(p.used); n++)
                program_pass(&p, SECOND / 100 + test_random_below(&r, SECOND / 5));
        }
        program_check(&p);
    }
}

/* The bound is no luxury: a program exists that makes the rule pay twice the optimum. */
static void test_an_adversary_comes_near_the_bound(void **state)
{
    struct program p;

    (void)state;
    program_begin(&p, 2.5, false);
    for (int i = 0; i < 90; i++) {
        program_use(&p, 1000);
        program_pass(&p, SECOND / 100);
        program_use(&p, 0);
        while (p.backed)
            program_pass(&p, SECOND / 100);
    }
    assert_true(p.cost > 1.9 * p.optimum.cost);
}

static void try_all(const struct program *before, unsigned steps)
{
    for (size_t level = 0; level < 5; level++) {
        struct program p;

        memcpy(&p, before, offsetof(struct program, falls));
        memcpy(p.falls, before->falls, before->optimum.count * sizeof(p.falls[0]));
        memcpy(&p.slack, &before->slack, sizeof(p) - offsetof(struct program, slack));
        program_use(&p, level * 1000);
        program_pass(&p, 3 * SECOND / 4);
        if (steps > 1)
            try_all(&p, steps - 1);
        program_check(&p);
    }
}

/* Up to 10 uses among five levels, for 0.75 s each. */
static void test_all_short_uses_cost_at_most_the_bound(void **state)
{
    struct program p;

    (void)state;
    program_begin(&p, 2.5, false);
    try_all(&p, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimum_is_the_least_of_all_choices),
        cmocka_unit_test(test_random_uses_cost_at_most_the_bound),
        cmocka_unit_test(test_adversaries_cost_at_most_the_bound),
        cmocka_unit_test(test_an_adversary_comes_near_the_bound),
        cmocka_unit_test(test_all_short_uses_cost_at_most_the_bound),
    };

    return cmocka_run_group_tests_name("retention_cost", tests, NULL, NULL);
}
