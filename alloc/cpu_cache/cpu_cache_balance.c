/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The per-CPU caches seen from other CPUs: stopping them, draining idle ones, moving capacity to
 * the CPU that misses most, counting for the statistics. Code that changes another CPU's slab holds
 * the lock of that cache and has stopped the CPU.
 */
#include "alloc/cpu_cache/cpu_cache.h"

#include "alloc/base/fatal.h"
#include "alloc/base/first_use_index.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/rseq.h"
#include "alloc/os/scratch.h"

/* When limits move to the busiest CPU, each other CPU keeps at least 1/4 of the limit, and the
 * busiest one gets at most 1/20 of it at a tick. */
#define SHUFFLE_KEEP_FRACTION 4
#define SHUFFLE_FRACTION      20

SA_RARE bool sa_cpu_cache_stop(int cpu)
{
    sa_slab_close(cpu);
    return sa_rseq_fence(cpu);
}

/* Sets the countdowns of a stopped CPU to 0 and not due: the next pop of each class draws a new
 * one. */
SA_FORK static void cpu_invalidate_countdowns(struct cpu_cache *c) SA_REQUIRES(SA_RANK_CPU_CACHE)
{
    uint32_t generation = sa_rates_generation();

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        uint64_t h = cpu_state(c->slab, cls);

        cpu_count_before(&c->allocs[cls], sa_state_until(h));
        sa_store_relaxed(&c->slab->header[cls].state, sa_state_arm(h, 0, false, generation));
    }
}

/*
 * Prepares a cache for its first use in a child of fork; no thread has used the slab since. The
 * countdowns of a cache that belongs to a thread stay: a signal handler may have interrupted that
 * thread in a critical section. cpu_revive ends them by critical sections.
 */
SA_FORK static void cpu_after_fork(struct cpu_cache *c) SA_REQUIRES(SA_RANK_CPU_CACHE)
{
    c->rng = sa_sampler_stream(c->stream);
    c->forks = sa_cpu_cache_forks;
    if (sa_rseq.per_cpu)
        cpu_invalidate_countdowns(c);
}

SA_FORK bool sa_cpu_cache_publish(struct cpu_cache *c, int cpu)
{
    SA_DCHECK_HELD(SA_RANK_CPU_CACHE);
    if (SA_UNLIKELY(c->forks != sa_cpu_cache_forks))
        cpu_after_fork(c);
    return sa_slab_open(cpu, c->slab);
}

/* Opens a CPU that this thread has stopped. While a fork is in progress, whose handlers may call
 * the allocator, all CPUs stay stopped. */
static void cpu_resume(struct cpu_cache *c, int cpu) SA_REQUIRES(SA_RANK_CPU_CACHE)
{
    if (!sa_fork_gate_is_closed())
        sa_cpu_cache_publish(c, cpu);
}

/* Passes all objects of a stopped slab on to the transfer cache, and sets all capacities to 0. The
 * bytes of the objects. */
SA_RARE static size_t cpu_empty(struct cpu_cache *c, int cpu) SA_REQUIRES(SA_RANK_CPU_CACHE)
{
    size_t bytes = 0, budget = 0;

    SA_DCHECK_HELD(SA_RANK_CPU_CACHE);
    SA_DCHECK(!sa_rseq.per_cpu || sa_slab_is_closed(sa_load_relaxed(&sa_hot.slabs[cpu])));
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        uint64_t h = cpu_state(c->slab, cls);
        void **slots = c->slab->header[cls].slots;
        uint32_t avail = sa_state_avail(h);

        SA_DCHECK(avail <= sa_state_cap(h));
        /* The state first: if a signal handler forks in between, no object is in two places. */
        sa_store_relaxed(&c->slab->header[cls].state, sa_state_with(h, 0, 0));
        for (uint32_t i = 0; i < avail; i += SA_MOVE_MAX)
            sa_transfer_insert(cpu, cls, slots + i, sa_min(avail - i, SA_MOVE_MAX));
        if (avail)
            cpu_count_after(&c->frees[cls], avail);
        bytes += (size_t)avail * sa_size_classes.of[cls].size;
        budget += (size_t)sa_state_cap(h) * sa_size_classes.of[cls].size;
    }
    sa_add_relaxed(&c->available_bytes, (int64_t)budget);
    return bytes;
}

/* Passes all objects of the current CPU's slab on by pops, where no CPU can be stopped. Capacities
 * stay. */
SA_COLD static size_t cpu_pop_all(int cpu)
{
    void *few[SA_BATCH_FEW];
    struct sa_batch b = sa_batch_begin(few);
    size_t bytes = 0, n;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        for (size_t popped = 0; popped < SA_SLOTS_MAX; popped += n) {
            n = sa_percpu_pop_batch(cls, b.objs, sa_min(SA_MOVE_MAX, b.max));
            if (!n)
                break;
            sa_transfer_insert(cpu, cls, b.objs, n);
            bytes += n * sa_size_classes.of[cls].size;
        }
    sa_batch_end(&b);
    return bytes;
}

/* A hash of the headers, which tells whether the fast path has run on the CPU. *ret_holds: some
 * class has a capacity. */
static uint64_t cpu_sum(const struct cpu_cache *c, bool *ret_holds)
{
    uint64_t sum = 0;

    *ret_holds = false;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        uint64_t h = cpu_state(c->slab, cls);

        sum = sum * 31 + h;
        *ret_holds |= sa_state_cap(h) != 0;
    }
    return sum;
}

SA_RARE SA_NOINLINE static size_t cpu_drain(int cpu)
{
    struct cpu_cache *c = cpu_cache_get(cpu);
    size_t bytes = 0;
    bool holds;

    if (!c)
        return 0;
    /* To stop a CPU takes a fence. A CPU that is empty needs none: requests that fail again and
     * again call this for all CPUs. */
    cpu_sum(c, &holds);
    if (!holds)
        return 0;
    sa_lock_acquire(&c->lock, SA_RANK_CPU_CACHE);
    /* Without rseq no other thread can be stopped, so only the own cache is emptied. It is not
     * opened here: it may be closed because its countdowns are invalid. */
    if (!sa_rseq.per_cpu) {
        if (cpu == sa_percpu_cpu())
            bytes = cpu_empty(c, cpu);
    } else if (!sa_rseq_can_fence()) {
        if (cpu == sa_percpu_cpu())
            bytes = cpu_pop_all(cpu);
    } else if (sa_cpu_cache_stop(cpu)) {
        bytes = cpu_empty(c, cpu);
        cpu_resume(c, cpu);
    }
    sa_add_relaxed(&c->reclaims, 1);
    sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
    return bytes;
}

SA_RARE size_t sa_cpu_cache_drain(int cpu)
{
    int count = sa_cpu_cache_count();
    size_t bytes = 0;

    if (cpu >= 0)
        return cpu < count ? cpu_drain(cpu) : 0;
    for (cpu = 0; cpu < count; cpu++)
        bytes += cpu_drain(cpu);
    return bytes;
}

/* Moves unused capacity, with its limit, from CPUs that missed at most 1/4 as often to the busiest
 * CPU. */
static void cpu_shuffle(int busiest, uint64_t max)
{
    int64_t limit = (int64_t)sa_cpu_cache_limit(), moved = 0;
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count && moved < limit / SHUFFLE_FRACTION; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);
        int64_t have, take;

        if (!c || cpu == busiest || c->tick_delta > max / 4)
            continue;
        have = sa_load_relaxed(&c->available_bytes);
        take = limit / SHUFFLE_FRACTION - moved;
        if (take > have)
            take = have;
        if (take > sa_load_relaxed(&c->limit_bytes) - limit / SHUFFLE_KEEP_FRACTION)
            take = sa_load_relaxed(&c->limit_bytes) - limit / SHUFFLE_KEEP_FRACTION;
        if (take <= 0 || !sa_cas_relaxed(&c->available_bytes, &have, have - take))
            continue;
        SA_DCHECK(take <= sa_load_relaxed(&c->limit_bytes));
        sa_sub_relaxed(&c->limit_bytes, take);
        moved += take;
    }
    SA_DCHECK(moved >= 0 && moved <= limit / SHUFFLE_FRACTION);
    sa_add_relaxed(&cpu_cache_get(busiest)->limit_bytes, moved);
    sa_add_relaxed(&cpu_cache_get(busiest)->available_bytes, moved);
}

void sa_cpu_cache_tick(void)
{
    int count = sa_cpu_cache_count(), busiest = -1;
    uint64_t max = 0;

    if (!sa_rseq.per_cpu)
        return;
    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);
        uint64_t misses, sum;
        bool holds;

        if (!c)
            continue;
        misses = sa_load_relaxed(&c->underflows) + sa_load_relaxed(&c->overflows);
        c->tick_delta = misses - c->tick_misses;
        c->tick_misses = misses;
        sum = cpu_sum(c, &holds);
        if (holds && sum == c->tick_sum)
            cpu_drain(cpu);
        c->tick_sum = sum;
        if (c->tick_delta > max) {
            max = c->tick_delta;
            busiest = cpu;
        }
    }
    if (busiest >= 0)
        cpu_shuffle(busiest, max);
    SA_VALIDATE(sa_cpu_cache_validate());
}

SA_RARE void sa_cpu_cache_rearm(void)
{
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);

        if (!c)
            continue;
        sa_lock_acquire(&c->lock, SA_RANK_CPU_CACHE);
        if (sa_rseq.per_cpu && sa_cpu_cache_stop(cpu)) {
            cpu_invalidate_countdowns(c);
            cpu_resume(c, cpu);
        } else {
            /* No fence: the next slow path on the CPU draws new countdowns for all classes. */
            sa_slab_close(cpu);
        }
        sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
    }
}

SA_RARE bool sa_cpu_cache_stop_all(void)
{
    sa_cpu_cache_kick();
    return sa_cpu_cache_count() == 0 || sa_rseq_fence(-1);
}

SA_RARE void sa_cpu_cache_resume_all(void)
{
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);

        /* A lock that is held belongs to this thread, which the signal handler that forks has
         * interrupted. The interrupted code has stopped the CPU and will open it; or it moves
         * slots, and the next slow path opens the CPU. */
        if (c && sa_lock_try(&c->lock, SA_RANK_CPU_CACHE)) {
            sa_cpu_cache_publish(c, cpu);
            sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
        }
    }
}

SA_FORK void sa_cpu_cache_after_fork(void)
{
    sa_cpu_cache_forks++;
    sa_cpu_cache_kick();
}

/* No analysis: a child of fork that the other threads do not see yet needs no lock. */
SA_COLD void sa_cpu_cache_keep_countdowns(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);

        if (!c)
            continue;
        c->rng = sa_sampler_stream(c->stream);
        c->forks = sa_cpu_cache_forks;
    }
}

SA_FORK void sa_cpu_cache_abandon_others(int own)
{
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);

        if (!c || cpu == own)
            continue;
        for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
            uint64_t h = cpu_state(c->slab, cls);

            cpu_count_before(&c->allocs[cls], sa_state_until(h));
            c->slab->header[cls].state = sa_state_make(0, 0, 0);
            cpu_count_after(&c->frees[cls], sa_state_avail(h));
        }
        c->available_bytes = c->limit_bytes;
    }
}

void sa_cpu_cache_count_use(void)
{
    int count = sa_cpu_cache_count(), caches = 1;
    int64_t bytes = sa_load_relaxed(&sa_in_use.bytes);
    unsigned cls;

    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);

        if (!c)
            continue;
        caches++;
        /* A class that no span was ever made for is in no cache. */
        for (unsigned i = 0; i < SA_CLASSES_MAX && (cls = sa_load_relaxed(&sa_first_use[i])); i++)
            bytes -=
                (int64_t)sa_state_avail(cpu_state(c->slab, cls)) * sa_size_classes.of[cls].size;
    }
    sa_in_use_note(bytes, caches);
}

SA_RARE void sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret)
{
    struct cpu_cache *c = cpu_cache_get(cpu);
    int64_t unallocated;

    *ret = (struct sa_cpu_cache_stats){0};
    if (!c)
        return;
    ret->populated = true;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        uint64_t h = cpu_state(c->slab, cls);

        ret->used_bytes += (size_t)sa_state_avail(h) * sa_size_classes.of[cls].size;
        ret->capacity_bytes += (size_t)sa_state_cap(h) * sa_size_classes.of[cls].size;
    }
    unallocated = sa_load_relaxed(&c->available_bytes);
    ret->unallocated_bytes = unallocated > 0 ? (size_t)unallocated : 0;
    ret->limit_bytes = (size_t)sa_load_relaxed(&c->limit_bytes);
    ret->underflows = sa_load_relaxed(&c->underflows);
    ret->overflows = sa_load_relaxed(&c->overflows);
    ret->reclaims = sa_load_relaxed(&c->reclaims);
}

#define COUNT_TRIES 8

/* Adds the allocations and frees of a class in one cache. The sums and the state are read again
 * until they belong together, see cpu_count_before. */
static void cpu_count_add(const struct cpu_cache *c, unsigned cls, struct sa_cpu_outside *to)
{
    uint64_t allocs, frees, h;
    int64_t more_allocs = 0, more_frees = 0;

    for (int tries = 0; tries < COUNT_TRIES; tries++) {
        allocs = sa_load_acquire(&c->allocs[cls]);
        frees = sa_load_acquire(&c->frees[cls]);
        h = sa_load_acquire(&c->slab->header[cls].state);
        more_allocs = (int64_t)(sa_load_acquire(&c->allocs[cls]) - allocs);
        more_frees = (int64_t)(sa_load_acquire(&c->frees[cls]) - frees);
        if (!more_allocs && !more_frees)
            break;
    }
    allocs += more_allocs < 0 ? (uint64_t)more_allocs : 0;
    frees += more_frees < 0 ? (uint64_t)more_frees : 0;
    to->allocs += allocs - sa_state_until(h);
    to->frees += allocs - sa_state_until(h) + frees + sa_state_avail(h);
}

/* The larger of `now` and the value that was reported before, so that no count goes down. A sum
 * that was read too early may be negative, and then counts as 0. */
static uint64_t reported(uint64_t *before, uint64_t now)
{
    uint64_t max = sa_load_relaxed(before);

    now = (int64_t)now < 0 ? 0 : now;

    while (now > max && !sa_cas_relaxed(before, &max, now))
        ;
    return sa_max(now, max);
}

static void cpu_count_read(unsigned cls, struct sa_cpu_class_stats *ret)
{
    static struct sa_cpu_outside before[SA_CLASSES_MAX]; /* atomic, relaxed */
    struct sa_cpu_outside now = {.allocs = sa_load_relaxed(&sa_cpu_outside[cls].allocs),
                                 .frees = sa_load_relaxed(&sa_cpu_outside[cls].frees)};
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++)
        if (cpu_cache_get(cpu))
            cpu_count_add(cpu_cache_get(cpu), cls, &now);
    ret->allocations = reported(&before[cls].allocs, now.allocs);
    ret->frees = reported(&before[cls].frees, now.frees);
}

SA_RARE void sa_cpu_cache_class_stats(unsigned cls, struct sa_cpu_class_stats *ret)
{
    int count = sa_cpu_cache_count(), populated = 0;
    size_t sum = 0;

    *ret = (struct sa_cpu_class_stats){.allowed = sa_size_classes.of[cls].max};
    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);
        uint64_t h;
        size_t cap;

        if (!c)
            continue;
        h = cpu_state(c->slab, cls);
        cap = sa_state_cap(h);
        ret->objects += sa_state_avail(h);
        ret->min = populated ? sa_min(ret->min, cap) : cap;
        ret->max = sa_max(ret->max, cap);
        sum += cap;
        populated++;
    }
    ret->average = populated ? (double)sum / populated : 0;
    cpu_count_read(cls, ret);
}

SA_RARE void sa_cpu_cache_set_limit(size_t bytes)
{
    if (sa_cpu_cache_change_limit(bytes))
        sa_cpu_cache_drain(-1);
}
