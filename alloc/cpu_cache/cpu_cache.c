/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Misses of the per-CPU caches: refill, overflow, first use; see cpu_cache.h
 * and cpu_cache_internal.h for who may touch what.
 *
 * Slow paths of several threads of one CPU run at the same time, preempting each other anywhere.
 * They change a slab through sequences only, each of which is atomic on the CPU, and are written
 * so that any interleaving is correct: what has been popped is owned, what could not be pushed is
 * passed on, a header that changed in between is read again.
 *
 * The countdown. Every pop is a trial of the sampler, with the class's probability; until_sample
 * counts those that are known to fail. When it ends, the next pop succeeds (the state says "due"),
 * or no more is known and the countdown is drawn anew: trials are independent, so it may be cut
 * short anywhere, provided that the decision does not depend on what was drawn. Objects that are
 * handed out without a pop are tried one by one.
 *
 * A change of the probabilities. All that is not known by then is drawn again: what is left of a
 * countdown is void, at one moment for each CPU, while it is stopped. What is known by then stays,
 * failure or success alike, with the probability by which it was drawn. That of a failure is known
 * when its pop ends. That of a success is known when the pop fails: the allocation then claims it
 * as soon as it gets here (sa_cpu_cache_claim), in a few nanoseconds, of which a change can take it
 * away. And a success that comes after the new probabilities are published, but before this CPU was
 * stopped, has the old one, as the failures beside it; so the success names its generation, and
 * rates.c remembers the last ones.
 *
 * It also is what brings a quiet program to the slow path now and then, where maintenance is
 * polled: a class whose countdown ends rarely gets a short one, one that ends it often a long one,
 * so that the cost stays below one slow path in ten milliseconds.
 */
#include "alloc/cpu_cache/cpu_cache.h"

#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/cpu_cache/thread_slots.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/clock.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "sampling/estimate/random_variates.h"

#define STRIDE_BUSY_MS 10  /* a countdown that ends sooner gets longer */
#define STRIDE_IDLE_MS 100 /* one that ends later gets short */

#define ALLOC_TRIES 4
#define VOID_TRIES  8

/* Ends a countdown of the current CPU, if it still is the one given: the next pop draws a new
 * one. */
static void cpu_void(struct cpu_cache *c, int cpu, unsigned cls)
{
    for (int tries = 0; tries < VOID_TRIES; tries++) {
        uint64_t h = cpu_state(c->slab, cls);

        cpu_count_before(&c->allocs[cls], sa_state_until(h));
        if (sa_percpu_replace(cpu, c->slab, cls, h, sa_state_arm(h, 0, false, 0)))
            break;
        cpu_count_after(&c->allocs[cls], sa_state_until(h));
    }
}

/*
 * Ends the countdowns of the current CPU, if it still is the one given: the next pop of each class
 * draws a short one. All of them, whatever they say: sparing those that are short anyway would
 * choose by the outcome of trials.
 */
static void cpu_hasten(struct cpu_cache *c, int cpu)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        c->stride[cls] = STRIDE_MIN;
        cpu_void(c, cpu, cls);
    }
}

/* Makes the cache of an empty-looking CPU usable. False: go without it this time. */
static bool cpu_revive(int cpu)
{
    struct cpu_cache *c;
    bool opened;

    if (sa_fork_gate_is_closed())
        return false; /* this thread is the one that forks: nothing may be set going */
    if (!sa_rseq.per_cpu && cpu == 0)
        return sa_thread_slots_acquire();
    c = cpu_cache_get(cpu);
    if (!c)
        return sa_cpu_cache_populate(cpu);
    if (!sa_lock_try(&c->lock, SA_RANK_CPU_CACHE))
        return false; /* stopped by another thread */
    opened = sa_cpu_cache_publish(c, cpu);
    sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
    if (opened)
        cpu_hasten(c, cpu);
    return opened;
}

/* The slab that this thread may use now, and its cold part; NULL: go without. */
static struct cpu_cache *cpu_current(int *ret_cpu)
{
    for (int tries = 0; tries < 2; tries++) {
        int cpu = sa_percpu_cpu();

        *ret_cpu = cpu;
        if (cpu < 0)
            return NULL;
        if (!sa_slab_is_closed(sa_load_acquire(&sa_hot.slabs[cpu])))
            return cpu_cache_get(cpu);
        if (!cpu_revive(cpu))
            return NULL;
    }
    return NULL;
}

/* The countdown has ended: draws the next one. False: the state has changed meanwhile. */
static bool cpu_rearm(struct cpu_cache *c, int cpu, unsigned cls, uint64_t h,
                      const struct sa_rate *rate)
{
    uint32_t now = (uint32_t)(sa_clock_coarse_ns() / 1000000), since = now - c->expired_ms[cls];
    uint32_t stride = c->stride[cls], failures;
    bool due;

    if (since < STRIDE_BUSY_MS)
        stride = (uint32_t)sa_min(stride * 2, SA_UNTIL_MAX);
    else if (since > STRIDE_IDLE_MS)
        stride = STRIDE_MIN;
    failures = sa_variate_failures(&c->rng, rate, stride);
    SA_DCHECK(stride >= 1 && failures <= stride && stride <= SA_UNTIL_MAX);
    due = failures < stride; /* else nothing is known of what follows: it is drawn anew */
    if (!sa_percpu_replace(cpu, c->slab, cls, h, sa_state_arm(h, failures, due, rate->generation)))
        return false;
    cpu_count_after(&c->allocs[cls], failures);
    c->stride[cls] = (uint16_t)stride;
    c->expired_ms[cls] = now;
    return true;
}

static size_t cpu_move_count(const struct sa_class *k, uint32_t cap)
{
    return sa_min(sa_max(k->batch, cap / 2), SA_MOVE_MAX);
}

static void *cpu_refill(struct cpu_cache *c, int cpu, unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    void *objs[SA_MOVE_MAX + 1];
    size_t n, pushed = 0;
    uint32_t cap;

    sa_add_relaxed(&c->underflows, 1);
    cap = sa_cpu_cache_grow(c, cpu, cls, SA_MISS_UNDERFLOW);
    n = sa_transfer_remove(cpu, cls, objs, sa_min(cpu_move_count(k, cap), (size_t)cap + 1));
    SA_DCHECK(n <= SA_MOVE_MAX);
    if (!n)
        return NULL;
    if (--n) {
        pushed = sa_cpu_cache_push_batch(c, cls, objs, n);
        if (pushed < n) /* migrated, or the class was shrunk meanwhile */
            sa_transfer_insert(cpu, cls, objs + pushed, n - pushed);
    }
    cpu_count_alloc(c, cls);
    return objs[n];
}

void sa_cpu_cache_claim(unsigned cls, struct sa_sampling_decision *ret_trial)
{
    int cpu = sa_percpu_cpu();
    struct sa_slab *slab = cpu < 0 ? &sa_slab_empty : sa_load_acquire(&sa_hot.slabs[cpu]);
    uint64_t h = cpu_state(slab, cls);

    /* A countdown is a matter of pops. The rate is read first: a countdown that is still there then
     * has not been overtaken by more than one change. The state is then that of one that has ended.
     */
    ret_trial->won =
        SA_UNLIKELY(sa_state_is_due(h)) && sa_state_avail(h) != 0 &&
        sa_rate_of_class_at(cls, sa_state_generation(h), SA_GENERATION_MASK, &ret_trial->rate) &&
        sa_percpu_replace(cpu, slab, cls, h, sa_state_arm(h, 0, false, sa_state_generation(h)));
}

/* Pops an object off the current CPU's cache, whose state was h lately; rate is from after that.
 * NULL: try again. */
static void *cpu_pop(struct cpu_cache *c, int cpu, unsigned cls, uint64_t h,
                     const struct sa_rate *rate, struct sa_sampling_decision *trial)
{
    void *obj;

    if (!trial->won && sa_state_is_due(h)) {
        sa_cpu_cache_claim(cls, trial);
        return NULL;
    }
    if (sa_state_until(h) == 0 && !sa_state_is_due(h))
        cpu_rearm(c, cpu, cls, h, rate);
    if (!trial->won)
        return sa_percpu_pop(cls);
    /* Not a pop that counts: this one was the last of the countdown that has ended. */
    if (!sa_percpu_pop_batch(cls, &obj, 1))
        return NULL;
    cpu_count_after(&c->allocs[cls], 1);
    return obj;
}

void *sa_cpu_cache_alloc(unsigned cls, struct sa_sampling_decision *trial)
{
    struct sa_rate rate;
    void *obj;
    int cpu;

    SA_DCHECK(cls && cls < sa_size_classes.count);
    for (int tries = 0; tries < ALLOC_TRIES; tries++) {
        struct cpu_cache *c = cpu_current(&cpu);
        uint64_t h = c ? sa_load_acquire(&c->slab->header[cls].state) : 0;

        /* In this order: whoever changes the probabilities from now on changes the state, too, so
         * that a countdown which was drawn by the old ones is not stored. */
        rate = sa_rate_of_class(cls);
        if (!c)
            break;
        if (sa_state_avail(h) == 0) {
            if (!trial->won)
                *trial = (struct sa_sampling_decision){sa_variate_bernoulli(&c->rng, rate.p), rate};
            return cpu_refill(c, cpu, cls);
        }
        obj = cpu_pop(c, cpu, cls, h, &rate, trial);
        if (obj)
            return obj;
    }
    if (!trial->won)
        *trial = (struct sa_sampling_decision){sa_sampler_try(&rate), rate};
    if (!sa_transfer_remove(sa_percpu_cpu(), cls, &obj, 1))
        return NULL;
    sa_add_relaxed(&sa_cpu_outside[cls].allocs, 1);
    return obj;
}

SA_RARE bool sa_cpu_cache_has(unsigned cls)
{
    int cpu;
    struct cpu_cache *c = cpu_current(&cpu);

    return (c && sa_state_avail(cpu_state(c->slab, cls))) || sa_transfer_has(cpu, cls);
}

SA_RARE void sa_cpu_cache_try(unsigned cls, struct sa_sampling_decision *ret_trial)
{
    int cpu;
    struct cpu_cache *c = cpu_current(&cpu);

    ret_trial->rate = sa_rate_of_class(cls);
    ret_trial->won = sa_sampler_try(&ret_trial->rate);
    if (c)
        cpu_count_alloc(c, cls);
    else
        sa_add_relaxed(&sa_cpu_outside[cls].allocs, 1);
}

SA_NORETURN SA_COLD static void cpu_freed_twice(unsigned cls, void *obj)
{
    sa_fatal("double free", obj, "was freed before (block of %u bytes)",
             sa_size_classes.of[cls].size);
}

SA_RARE void sa_cpu_cache_check_freed(unsigned cls, void *obj)
{
    void *last;

    if (!sa_percpu_pop_batch(cls, &last, 1))
        return;
    if (SA_UNLIKELY(last == obj))
        cpu_freed_twice(cls, obj);
    sa_cpu_cache_free(cls, last); /* by which there is no more filled than before, nor freed */
}

/* As the sequence; the object being there already ends the program. */
static bool cpu_push(unsigned cls, void *obj)
{
    enum sa_push pushed = sa_percpu_push(cls, obj);

    if (SA_UNLIKELY(pushed == SA_PUSH_TWICE))
        cpu_freed_twice(cls, obj);
    return pushed == SA_PUSHED;
}

/* The cache is full: more capacity, or half of it goes on its way. */
static bool cpu_overflow(struct cpu_cache *c, int cpu, unsigned cls, void *obj)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    void *objs[SA_MOVE_MAX];
    uint32_t cap;
    size_t n;

    sa_add_relaxed(&c->overflows, 1);
    cap = sa_cpu_cache_grow(c, cpu, cls, SA_MISS_OVERFLOW);
    if (cap == 0)
        return false;
    if (cpu_push(cls, obj))
        return true;
    n = sa_cpu_cache_pop_batch(c, cls, objs, cpu_move_count(k, cap));
    if (n && SA_UNLIKELY(objs[n - 1] == obj)) /* a full cache is not looked into before */
        cpu_freed_twice(cls, obj);
    if (n)
        sa_transfer_insert(cpu, cls, objs, n);
    return cpu_push(cls, obj);
}

void sa_cpu_cache_free(unsigned cls, void *obj)
{
    struct cpu_cache *c;
    int cpu;

    SA_DCHECK(obj && cls && cls < sa_size_classes.count);
    c = cpu_current(&cpu);
    if (c && (cpu_push(cls, obj) || cpu_overflow(c, cpu, cls, obj)))
        return;
    sa_transfer_insert(sa_percpu_cpu(), cls, &obj, 1);
    sa_cpu_cache_count_free(cls);
}

SA_RARE void sa_cpu_cache_count_free(unsigned cls)
{
    sa_add_relaxed(&sa_cpu_outside[cls].frees, 1);
}

SA_RARE void sa_cpu_cache_return(unsigned cls, void *obj)
{
    cpu_count_before(&sa_cpu_outside[cls].frees, 1);
    sa_cpu_cache_free(cls, obj);
}
