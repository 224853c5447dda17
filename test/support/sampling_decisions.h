/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations counted as trials of the sampler. The number of successes in n of them is binomial:
 * np, deviation sqrt(np(1-p)); 5 deviations are allowed, and somewhat more above what is expected
 * where that is little, by inequalities for such sums. Seeds are fixed, but not the outcome:
 * restartable sequences that the kernel restarts draw again, and threads come in any order.
 *
 * The clock is the test's (--wrap for sa_vdso_clock_ns): how long a countdown may be depends on how
 * fast the last one ended. Sampled objects are used as if they were not.
 */
#ifndef TEST_SUPPORT_SAMPLING_DECISIONS_H
#define TEST_SUPPORT_SAMPLING_DECISIONS_H

#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/sample_rates.h"
#include "test/support/cache_disturb.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <math.h>
#include <time.h>

static uint64_t now_ns = 1000000000, step_ns; /* atomic: the clock, and what each look at it adds */

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    uint64_t now =
        __atomic_add_fetch(&now_ns, __atomic_load_n(&step_ns, __ATOMIC_RELAXED), __ATOMIC_RELAXED);

    (void)clock;
    return now;
}

/* Countdowns end in less than 10 ms, between 10 and 100, and more: they get longer, stay, are
 * short. */
enum pace { BUSY, EVEN, QUIET };

static inline void set_pace(enum pace pace)
{
    static const uint64_t ms[] = {1, 50, 200};

    __atomic_store_n(&step_ns, ms[pace] * 1000000, __ATOMIC_RELAXED);
}

/* Successes against what they should be. */
struct tally {
    double expected, variance, sampled;
};

static inline void *try_alloc(unsigned cls, double p, struct tally *t)
{
    struct sa_sampling_decision decision = {.sampled = false};
    void *obj = sa_percpu_pop(cls);

    if (!obj) {
        sa_cpu_cache_claim(cls, &decision);
        obj = sa_cpu_cache_alloc(cls, &decision);
    }
    t->expected += p;
    t->variance += p * (1 - p);
    t->sampled += decision.sampled;
    return obj;
}

static inline void give_back(unsigned cls, void *obj)
{
    if (sa_percpu_push(cls, obj) != SA_PUSHED)
        sa_cpu_cache_free(cls, obj);
}

#define LOG_CHANCE (5.0 * 5 / 2) /* 5 deviations of many: once in 1.7 million by chance */

/*
 * -log of the most that the chance can be of a sum of independent successes being so far off
 * (error), of `expected` and a variance > 0. It is v h(x / v) with h(u) = (1 + u) log(1 + u) - u,
 * as no term is more than 1 off (G. Bennett, Probability inequalities for the sum of independent
 * random variables, 1962), and below what is expected also x^2 / (2 expected) (D. Angluin, L.
 * Valiant, Fast probabilistic algorithms for Hamiltonian circuits and matchings, 1979).
 */
static inline double log_rarity(double error, double expected, double variance)
{
    double u = fabs(error) / variance, rarity = variance * ((1 + u) * log1p(u) - u);

    return error < 0 ? fmax(rarity, error * error / (2 * expected)) : rarity;
}

static inline void assert_fair(const struct tally *t, const char *what)
{
    double error = t->sampled - t->expected, sigma = sqrt(t->variance);

    if (!(t->variance > 0 ? log_rarity(error, t->expected, t->variance) <= LOG_CHANCE
                          : fabs(error) <= 1e-9))
        fail_msg("%s: %.0f successes, expected %.1f +- %.1f (%.1f sigma, %+.2f %%)", what,
                 t->sampled, t->expected, sigma, error / sigma, error / t->expected * 100);
}

static inline void set_interval(int64_t interval)
{
    assert_true(sa_fork_gate_enter());
    sa_sample_rates_set_interval(interval);
    sa_fork_gate_leave();
}

/* One object that comes and goes. */
static inline void cycle(unsigned cls, double p, int n, struct tally *t)
{
    while (n--)
        give_back(cls, try_alloc(cls, p, t));
}

/* All classes mixed at random with everything that disturbs them. */
static inline void mixed(struct test_random *r, const double *p, int n, int calm, struct tally *t)
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
            cache_disturb((unsigned)test_random_below(r, CACHE_DISTURBANCES));
    }
    for (size_t i = 0; i < HELD; i++)
        if (held[i].obj)
            give_back(held[i].cls, held[i].obj);
}

static inline void probabilities(double *p)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        p[cls] = sa_rate_of_class(cls).p;
}

#endif
