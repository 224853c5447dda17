/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes sampling probabilities; see sample_rates.h. RATES guards everything in `rates`, except
 * the two words that reports read, which are atomic.
 *
 * The choice by class takes two numbers: how often the program has allocated the class lately (each
 * choice halves the weight of earlier allocations), and how many of its blocks are live. Choices
 * become rarer, up to one per minute, because each one voids the countdowns of all CPUs.
 */
#include "alloc/maintain/sample_rates.h"

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/lock.h"
#include "alloc/os/scratch.h"
#include "alloc/page_heap/account/footprint.h"
#include "alloc/page_heap/account/peak.h"
#include "sampling/estimate/rate_optimizer.h"
#include "sampling/estimate/rates.h"
#include "sampling/sampler/sampler.h"

#include <string.h>

#define CHOOSE_FIRST_NS 1000000000ull
#define CHOOSE_MAX_NS   60000000000ull

/* The least probability of a class, as a part of its default. A class whose use resumes is thus
 * still sampled. */
#define MIN_SHARE 0.1

static struct {
    struct sa_lock lock;
    uint64_t next_ns SA_GUARDED_BY(SA_RANK_RATES); /* of the next choice */
    uint64_t wait_ns SA_GUARDED_BY(SA_RANK_RATES); /* until the one after; 0: CHOOSE_FIRST_NS */
    /* By class: all allocations until the last choice, and their number with earlier ones
     * halved. */
    uint64_t seen[SA_CLASSES_MAX] SA_GUARDED_BY(SA_RANK_RATES);
    double weight[SA_CLASSES_MAX] SA_GUARDED_BY(SA_RANK_RATES);
    uint64_t optimizations; /* atomic, relaxed: choices since the start */
    double variance;        /* atomic, relaxed: see struct sa_sample_rates_stats */
} rates;

static SA_START_DATA bool optimise; /* const after start: choose by class */

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("sample_rates", rates, optimizations),
    SA_LAYOUT_STATE("sample_rates", rates, variance),
};
SA_LAYOUT_STATIC_ADDRESS("sample_rates", rates);

SA_RARE void sa_sample_rates_set_interval(int64_t bytes)
{
    sa_lock_acquire(&rates.lock, SA_RANK_RATES);
    if (bytes > 0 && sa_rates_interval() <= 0) {
        sa_in_use_restart();
        sa_cpu_cache_count_use();
    }
    sa_rates_set_interval(bytes);
    sa_cpu_cache_rearm();
    sa_rates_bound_past((double)sa_footprint_bytes());
    rates.wait_ns = 0;
    rates.next_ns = 0;
    sa_lock_release(&rates.lock, SA_RANK_RATES);
}

void sa_sample_rates_optimise(bool on)
{
    optimise = on;
}

/* Returns what the optimizer needs of a class, from the allocator's counters, and updates its
 * weight. */
SA_RARE SA_NOINLINE static struct sa_rate_optimizer_class rates_of_class(unsigned cls,
                                                                         double interval)
    SA_REQUIRES(SA_RANK_RATES)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    struct sa_rate_optimizer_class c = {.size = k->size};
    struct sa_cpu_class_stats cpu;
    struct sa_transfer_stats transfer;
    struct sa_central_stats central;
    size_t all, unused;

    sa_cpu_cache_class_stats(cls, &cpu);
    sa_transfer_stats(cls, &transfer);
    sa_central_stats(cls, &central);
    all = central.spans * k->objects + central.mixed_objects;
    unused = cpu.objects + transfer.objects + central.free_objects;
    c.live = (double)(all - sa_min(unused, all) + sa_sampler_apart(cls));
    rates.weight[cls] = rates.weight[cls] / 2 + (double)(cpu.allocations - rates.seen[cls]);
    rates.seen[cls] = cpu.allocations;
    SA_DCHECK(c.live >= 0 && rates.weight[cls] >= 0);
    c.allocations = rates.weight[cls];
    c.p_default = c.p = sa_rate_probability(interval, k->size);
    return c;
}

/* What rates_choose keeps in scratch memory. */
struct choice {
    struct sa_rate_optimizer_class of[SA_CLASSES_MAX];
    double p[SA_CLASSES_MAX];
};

SA_STATIC_ASSERT(sizeof(struct choice) <= SA_SCRATCH_BYTES, "it fits");

/* Chooses the probabilities of all classes and makes all CPUs use them. */
SA_RARE SA_NOINLINE static void rates_choose(struct choice *c, double interval)
    SA_REQUIRES(SA_RANK_RATES)
{
    struct sa_rate_optimizer_class *of = c->of;
    double *p = c->p, variance;

    memset(p, 0, sizeof(c->p));
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        of[cls] = rates_of_class(cls, interval);
    variance = sa_rate_optimizer_rates(of + 1, sa_size_classes.count - 1, MIN_SHARE);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        p[cls] = of[cls].p;
    SA_DCHECK(variance >= 0);
    sa_rates_set_classes(p);
    sa_cpu_cache_rearm();
    sa_rates_bound_past((double)sa_footprint_bytes());
    __atomic_store(&rates.variance, &variance, __ATOMIC_RELAXED);
    sa_count_add(&rates.optimizations, 1);
}

void sa_sample_rates_tick(uint64_t now_ns)
{
    struct choice *c;
    uint64_t wait;
    int64_t interval;

    if (!optimise || !sa_lock_try(&rates.lock, SA_RANK_RATES))
        return;
    interval = sa_rates_interval();
    if (now_ns >= rates.next_ns && interval > 1 && (c = sa_scratch_take())) {
        rates_choose(c, (double)interval);
        sa_scratch_give(c);
        wait = sa_max(rates.wait_ns, CHOOSE_FIRST_NS);
        rates.next_ns = now_ns + wait;
        rates.wait_ns = sa_min(2 * wait, CHOOSE_MAX_NS);
    }
    sa_lock_release(&rates.lock, SA_RANK_RATES);
}

SA_RARE void sa_sample_rates_stats(struct sa_sample_rates_stats *ret)
{
    ret->optimizations = sa_load_relaxed(&rates.optimizations);
    ret->optimised = ret->optimizations != 0;
    __atomic_load(&rates.variance, &ret->variance, __ATOMIC_RELAXED);
}
