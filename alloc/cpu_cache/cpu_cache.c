/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slow paths of the per-CPU caches: refill, overflow, first use. cpu_cache.h has the calls,
 * cpu_cache_internal.h says who may touch what.
 *
 * Slow paths of several threads run on one CPU at the same time and preempt each other anywhere.
 * They change a slab through critical sections only, each of which is atomic on the CPU. Any
 * interleaving is correct: a popped object belongs to the thread that popped it, objects that could
 * not be pushed go to the transfer cache, and a header that has changed is read again.
 *
 * The countdown. Each pop has a sampling decision, with the probability of its class. until_sample
 * is the number of pops whose decision is known to be negative. The pop after those is sampled (the
 * state says "due"), or nothing is known of it and the countdown is drawn anew. Decisions are
 * independent, so a countdown may be cut short anywhere, provided that doing so does not depend on
 * what was drawn. Objects that are handed out without a pop are decided one by one.
 *
 * A change of the probabilities. Decisions that are not known by then are drawn again: the rest of
 * a countdown is invalidated, at one moment for each CPU, while it is stopped. Decisions that are
 * known stay, with the probability by which they were drawn. A negative one is known when its pop
 * ends. A positive one is known when the pop fails: the allocation then claims it in the slow path
 * (sa_cpu_cache_claim), within a few nanoseconds, in which a change can still take it away. A
 * positive decision that comes after the new probabilities are published, but before its CPU was
 * stopped, has the old probability, as the negative ones beside it. So the state names the
 * generation, and rates.c remembers the last generations.
 *
 * The countdown also brings a quiet program to the slow path, where maintenance is polled. A class
 * whose countdown ends rarely gets a short one, a class that ends it often gets a long one. This
 * costs less than one slow path in COUNTDOWN_BUSY_MS (10 ms).
 */
#include "alloc/cpu_cache/cpu_cache.h"

#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/cpu_cache/thread_slots.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/clock.h"
#include "alloc/os/rseq.h"
#include "alloc/os/scratch.h"
#include "alloc/os/vm.h"
#include "alloc/page_heap/account/heap_types.h"
#include "sampling/estimate/random_variates.h"

/* After a countdown that ended sooner than COUNTDOWN_BUSY_MS, the next one is twice as long. After
 * one that ended later than COUNTDOWN_IDLE_MS, the next one has COUNTDOWN_CAP_MIN pops. */
#define COUNTDOWN_BUSY_MS 10
#define COUNTDOWN_IDLE_MS 100

/* The longest countdown where addresses are alike in each run. */
#define COUNTDOWN_CAP_ALIKE 1024

#define ALLOC_TRIES      4
#define INVALIDATE_TRIES 8

/* Ends a class's countdown if this still is the given CPU: the next pop draws a new countdown.
 * False: it is another CPU, or the sequence was restarted too often. */
static bool cpu_invalidate(struct cpu_cache *c, int cpu, unsigned cls)
{
    for (int tries = 0; tries < INVALIDATE_TRIES; tries++) {
        uint64_t h = cpu_state(c->slab, cls);

        cpu_count_before(&c->allocs[cls], sa_state_until(h));
        if (sa_percpu_replace(cpu, c->slab, cls, h, sa_state_arm(h, 0, false, 0)))
            return true;
        cpu_count_after(&c->allocs[cls], sa_state_until(h));
    }
    return false;
}

/*
 * Ends the countdowns of all classes if this still is the given CPU: the next pop of each class
 * draws a short one. Countdowns that are short already end, too: to spare them would select by the
 * outcome of sampling decisions.
 */
static void cpu_shorten(struct cpu_cache *c, int cpu)
{
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        c->countdown_cap[cls] = COUNTDOWN_CAP_MIN;
        if (!cpu_invalidate(c, cpu, cls))
            break;
    }
}

/* Makes the closed cache of a CPU usable. False: the caller goes without a cache this time. */
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
        cpu_shorten(c, cpu);
    return opened;
}

/* The cache that this thread may use now. NULL: the caller goes without one. */
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

/* Draws the next countdown of a class whose state `h` has none left. False: the state has changed
 * meanwhile. */
static bool cpu_rearm(struct cpu_cache *c, int cpu, unsigned cls, uint64_t h,
                      const struct sa_rate *rate, uint64_t now_ns)
{
    uint32_t now = (uint32_t)(now_ns / 1000000), since = now - c->expired_ms[cls];
    uint32_t countdown_cap = c->countdown_cap[cls], failures;
    bool due;

    if (SA_UNLIKELY(sa_vm.alike)) /* by a clock, the places of samples would differ */
        countdown_cap = (uint32_t)sa_min(countdown_cap * 2, COUNTDOWN_CAP_ALIKE);
    else if (since < COUNTDOWN_BUSY_MS)
        countdown_cap = (uint32_t)sa_min(countdown_cap * 2, SA_UNTIL_MAX);
    else if (since > COUNTDOWN_IDLE_MS)
        countdown_cap = COUNTDOWN_CAP_MIN;
    failures = sa_variate_failures(&c->rng, rate, countdown_cap);
    SA_DCHECK(countdown_cap >= 1 && failures <= countdown_cap && countdown_cap <= SA_UNTIL_MAX);
    due = failures < countdown_cap; /* else the pop after the countdown is not decided yet */
    if (!sa_percpu_replace(cpu, c->slab, cls, h, sa_state_arm(h, failures, due, rate->generation)))
        return false;
    cpu_count_after(&c->allocs[cls], failures);
    c->countdown_cap[cls] = (uint16_t)countdown_cap;
    c->expired_ms[cls] = now;
    return true;
}

/* How many objects a miss moves: half of the capacity, but at least a batch. */
static size_t cpu_move_count(const struct sa_class *k, uint32_t cap)
{
    return sa_min(sa_max(k->batch, cap / 2), SA_MOVE_MAX);
}

/* Takes up to n objects from the transfer cache and pushes all but one, which it returns. NULL: out
 * of memory. */
static void *cpu_fill(struct cpu_cache *c, int cpu, unsigned cls, void **objs, size_t n)
{
    size_t pushed = 0;

    n = sa_transfer_remove(cpu, cls, objs, n);
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

/* An object for a class whose stack is empty; fills the stack from the transfer cache. NULL: out of
 * memory. */
static void *cpu_refill(struct cpu_cache *c, int cpu, unsigned cls)
{
    void *few[SA_BATCH_FEW], *object;
    struct sa_batch b;
    uint32_t cap;
    size_t n;

    sa_add_relaxed(&c->underflows, 1);
    cap = sa_cpu_cache_grow(c, cpu, cls, SA_MISS_UNDERFLOW);
    n = sa_min(cpu_move_count(&sa_size_classes.of[cls], cap), (size_t)cap + 1);
    SA_DCHECK(n <= SA_MOVE_MAX);
    b = sa_batch_begin(few);
    object = cpu_fill(c, cpu, cls, b.objs, sa_min(n, b.max));
    sa_batch_end(&b);
    return object;
}

void sa_cpu_cache_claim(unsigned cls, struct sa_sampling_decision *ret_decision)
{
    struct sa_slab *slab;
    uint64_t h;
    int cpu;

    ret_decision->sampled = false;
    ret_decision->now_ns = 0;
    if (!cls)
        return;
    cpu = sa_percpu_cpu();
    slab = cpu < 0 ? &sa_slab_empty : sa_load_acquire(&sa_hot.slabs[cpu]);
    h = cpu_state(slab, cls);
    /* Only pops count down, hence the test for objects. The rate is read before the state is
     * replaced: at most one change of the probabilities can have come between. The new state is
     * that of a countdown that has ended. */
    ret_decision->sampled =
        SA_UNLIKELY(sa_state_is_due(h)) && sa_state_avail(h) != 0 &&
        sa_rate_of_class_at(cls, sa_state_generation(h), SA_GENERATION_MASK, &ret_decision->rate) &&
        sa_percpu_replace(cpu, slab, cls, h, sa_state_arm(h, 0, false, sa_state_generation(h)));
}

/* Pops an object off the current CPU's cache, whose state was `h`; the rate was read after that.
 * NULL: the caller tries again. */
static void *cpu_pop(struct cpu_cache *c, int cpu, unsigned cls, uint64_t h,
                     const struct sa_rate *rate, struct sa_sampling_decision *decision)
{
    void *obj;

    if (!decision->sampled && sa_state_is_due(h)) {
        sa_cpu_cache_claim(cls, decision);
        return NULL;
    }
    if (sa_state_until(h) == 0 && !sa_state_is_due(h))
        cpu_rearm(c, cpu, cls, h, rate, sa_sampling_now(decision));
    if (!decision->sampled)
        return sa_percpu_pop(cls);
    /* This pop does not count down: it was the last one of the countdown that has ended. */
    if (!sa_percpu_pop_batch(cls, &obj, 1))
        return NULL;
    cpu_count_after(&c->allocs[cls], 1);
    return obj;
}

/* Decides about an object that is handed out without a pop, unless a countdown has: draws from the
 * generator of a cache. NULL: from that of the sampler. */
SA_INLINE void cpu_decide(struct cpu_cache *c, const struct sa_rate *rate,
                          struct sa_sampling_decision *decision)
{
    if (decision->sampled)
        return;
    decision->sampled = c ? sa_variate_bernoulli(&c->rng, rate->p) : sa_sampler_try(rate);
    decision->rate = *rate;
}

/* The current rate of the class. That of a claimed decision saves a look at the table. */
static struct sa_rate cpu_rate(unsigned cls, const struct sa_sampling_decision *decision)
{
    return decision->sampled && decision->rate.generation == sa_rates_generation()
               ? decision->rate
               : sa_rate_of_class(cls);
}

void *sa_cpu_cache_alloc(unsigned cls, struct sa_sampling_decision *decision)
{
    struct sa_rate rate;
    void *obj;
    int cpu;

    SA_DCHECK(cls && cls < sa_size_classes.count);
    for (int tries = 0; tries < ALLOC_TRIES; tries++) {
        struct cpu_cache *c = cpu_current(&cpu);
        uint64_t h = c ? sa_load_acquire(&c->slab->header[cls].state) : 0;

        /* The rate is read after the state: a later change of the probabilities also changes the
         * state, so a countdown that was drawn by the old ones is not stored. */
        rate = cpu_rate(cls, decision);
        if (!c)
            break;
        if (sa_state_avail(h) == 0) {
            cpu_decide(c, &rate, decision);
            return cpu_refill(c, cpu, cls);
        }
        obj = cpu_pop(c, cpu, cls, h, &rate, decision);
        if (obj)
            return obj;
    }
    cpu_decide(NULL, &rate, decision);
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

SA_RARE void sa_cpu_cache_count_alloc(unsigned cls, struct sa_sampling_decision *decision)
{
    int cpu;
    struct cpu_cache *c = cpu_current(&cpu);
    uint64_t h = c ? sa_load_acquire(&c->slab->header[cls].state) : 0;
    struct sa_rate rate;

    if (!c) {
        sa_add_relaxed(&sa_cpu_outside[cls].allocs, 1);
        return;
    }
    rate = cpu_rate(cls, decision); /* after the state: see sa_cpu_cache_alloc */
    if (sa_state_until(h) == 0 && !sa_state_is_due(h))
        cpu_rearm(c, cpu, cls, h, &rate, sa_sampling_now(decision));
    cpu_count_alloc(c, cls);
}

SA_RARE void sa_cpu_cache_try(unsigned cls, struct sa_sampling_decision *ret_decision)
{
    int cpu;
    struct cpu_cache *c = cpu_current(&cpu);
    struct sa_rate rate = sa_rate_of_class(cls);

    *ret_decision = (struct sa_sampling_decision){.sampled = false};
    cpu_decide(NULL, &rate, ret_decision);
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

/* Ends the program if an object is on top of the stack. Neither the content nor the count of frees
 * changes. */
SA_RARE SA_NOINLINE static void cpu_check_top(struct cpu_cache *c, int cpu, unsigned cls, void *obj)
{
    void *last;

    if (!sa_cpu_cache_pop_batch(c, cls, &last, 1))
        return;
    if (SA_UNLIKELY(last == obj))
        cpu_freed_twice(cls, obj);
    if (!sa_cpu_cache_push_batch(c, cls, &last, 1))
        sa_transfer_insert(cpu, cls, &last, 1);
}

SA_RARE void sa_cpu_cache_check_freed(unsigned cls, void *obj)
{
    int cpu;
    struct cpu_cache *c = cpu_current(&cpu);

    if (c)
        cpu_check_top(c, cpu, cls, obj);
}

/* Pushes an object; false: there is no room. Ends the program if the object is on top already. */
static bool cpu_push(unsigned cls, void *obj)
{
    enum sa_push pushed = sa_percpu_push(cls, obj);

    if (SA_UNLIKELY(pushed == SA_PUSH_TWICE))
        cpu_freed_twice(cls, obj);
    return pushed == SA_PUSHED;
}

/* Passes up to n objects on to the transfer cache. obj is about to be pushed. */
static void cpu_pass_on(struct cpu_cache *c, int cpu, unsigned cls, size_t n, const void *obj)
{
    void *few[SA_BATCH_FEW];
    struct sa_batch b = sa_batch_begin(few);

    n = sa_cpu_cache_pop_batch(c, cls, b.objs, sa_min(n, b.max));
    /* The push looks at the top only if there is room. */
    if (n && SA_UNLIKELY(b.objs[n - 1] == obj))
        cpu_freed_twice(cls, b.objs[n - 1]);
    if (n)
        sa_transfer_insert(cpu, cls, b.objs, n);
    sa_batch_end(&b);
}

/* Frees an object of a class whose stack is full: gives the class more capacity, or passes half of
 * the stack on to the transfer cache. False: the class has no capacity. */
static bool cpu_overflow(struct cpu_cache *c, int cpu, unsigned cls, void *obj)
{
    uint32_t cap;

    sa_add_relaxed(&c->overflows, 1);
    if (SA_UNLIKELY(sa_load_relaxed(&sa_page_heap_fall))) /* the top is about to be passed on */
        cpu_check_top(c, cpu, cls, obj);
    cap = sa_cpu_cache_grow(c, cpu, cls, SA_MISS_OVERFLOW);
    if (cap == 0)
        return false;
    if (cpu_push(cls, obj))
        return true;
    cpu_pass_on(c, cpu, cls, cpu_move_count(&sa_size_classes.of[cls], cap), obj);
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

SA_RARE SA_NOINLINE void sa_cpu_cache_count_free(unsigned cls)
{
    int cpu;
    struct cpu_cache *c = cpu_current(&cpu);

    if (c)
        cpu_count_after(&c->frees[cls], 1);
    else
        sa_count_shared(&sa_cpu_outside[cls].frees, 1);
}

SA_RARE void sa_cpu_cache_return(unsigned cls, void *obj)
{
    cpu_count_before(&sa_cpu_outside[cls].frees, 1);
    sa_cpu_cache_free(cls, obj);
}
