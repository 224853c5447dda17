/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a CPU's cache, and calls between the files of this folder; see cpu_cache.h. */
#ifndef SA_CPU_CACHE_CPU_CACHE_INTERNAL_H
#define SA_CPU_CACHE_CPU_CACHE_INTERNAL_H

#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/lock.h"

/*
 * The part of a CPU's cache that only slow paths use, in the same mapping as its slab and before
 * it.
 *
 * A thread holds the lock (CPU_CACHE) to move slots, and to close and open slabs[cpu]. Two may
 * close it without the lock: sa_cpu_cache_kick, which may be undone at once, and children of vfork
 * (cpu_closed.h). A thread that holds the lock, has closed slabs[cpu] and has fenced the CPU owns
 * the slab. Otherwise the critical sections of the CPU own it.
 *
 * Conservation: limit = available + sum over classes of cap * size. Capacity is taken from
 * `available` before the header changes, and returned to it afterwards; a failed change is undone.
 * In between the sum is less than the limit, never more (sa_cpu_cache_validate).
 */
struct cpu_cache {
    struct sa_lock lock;
    struct sa_slab *slab;                       /* const */
    int64_t available_bytes;                    /* atomic, relaxed: every slow path on the CPU */
    int64_t limit_bytes;                        /* atomic, relaxed: written by maintenance */
    uint64_t underflows, overflows, reclaims;   /* atomic, relaxed */
    uint64_t tick_misses, tick_delta, tick_sum; /* maintenance (MAINTAIN): seen by the last tick */
    uint32_t hand;                              /* racy: the class at which the last steal ended */
    uint32_t unstolen;                          /* racy: misses since the last steal */
    uint64_t rng;                               /* atomic: countdowns and sampling decisions */
    /* Number of the generator, in the order in which CPUs were first used: the first thread of a
     * process has the same samples on each CPU. Const. */
    unsigned stream;
    /* sa_cpu_cache_forks when rng was seeded. */
    uint32_t forks SA_GUARDED_BY(SA_RANK_CPU_CACHE);
    uint64_t allocs[SA_CLASSES], frees[SA_CLASSES]; /* atomic: see cpu_count_before */
    /* Racy hints, written by the slow paths on this CPU; any value is valid. */
    uint8_t last_miss[SA_CLASSES];
    uint8_t clock_bit[SA_CLASSES];
    uint16_t countdown_cap[SA_CLASSES];
    uint32_t expired_ms[SA_CLASSES];
    uint16_t missed_at[SA_CLASSES]; /* allocations until the last miss, modulo 2^16 */
    uint16_t apart[SA_CLASSES];     /* mean of allocations from one miss to one of the other kind */
};

extern struct cpu_cache *sa_cpu_caches[SA_SLABS]; /* atomic: published with release */
extern uint32_t sa_cpu_cache_forks;               /* forks between the first process and this one */

static inline struct cpu_cache *cpu_cache_get(int cpu)
{
    return sa_load_acquire(&sa_cpu_caches[cpu]);
}

static inline uint64_t cpu_state(const struct sa_slab *slab, unsigned cls)
{
    return sa_load_relaxed(&slab->header[cls].state);
}

/*
 * Allocations and frees are counted without an instruction in the fast paths. A pop takes one off
 * the countdown and one off what is filled; a push adds one to what is filled. Slow paths add their
 * changes of the two:
 *
 *   allocs[cls] = what countdowns were lengthened by, plus allocations that were no pop
 *   frees[cls] = objects taken out by other than pops, minus those put in by other than pushes,
 *                plus frees that were no push, minus allocations that were no pop
 *
 * As sums over all CPUs, modulo 2^64: allocations = allocs - until, frees = allocations + frees +
 * filled. A single CPU's sums mean nothing: a slow path may have moved to another CPU.
 *
 * A reader never sees too much, only too little: a slow path counts what lowers a sum before its
 * change, and what raises a sum after it. If the change is then not made, the slow path takes the
 * count back in the way of a raise.
 */
void sa_cpu_count(uint64_t *sum, uint64_t more);

static inline void cpu_count_before(uint64_t *sum, uint64_t less)
{
    sa_cpu_count(sum, -less);
}

static inline void cpu_count_after(uint64_t *sum, uint64_t more)
{
    sa_cpu_count(sum, more);
}

/* An allocation that is no pop. */
static inline void cpu_count_alloc(struct cpu_cache *c, unsigned cls)
{
    cpu_count_before(&c->frees[cls], 1);
    cpu_count_after(&c->allocs[cls], 1);
}

/* Allocations and frees that found no cache to use, by class. */
struct sa_cpu_outside {
    uint64_t allocs, frees;
};

extern struct sa_cpu_outside sa_cpu_outside[SA_CLASSES_MAX];

/* Critical sections for objects that the program neither allocates nor frees, and their counts. */
size_t sa_cpu_cache_push_batch(struct cpu_cache *c, unsigned cls, void *const *objs, size_t n);
size_t sa_cpu_cache_pop_batch(struct cpu_cache *c, unsigned cls, void **objs, size_t n);

/* The length of a class's first countdown on a CPU, in allocations. */
#define COUNTDOWN_CAP_MIN 16

/* Makes the cache of a CPU at its first use, empty and without capacity. False: out of memory. */
bool sa_cpu_cache_populate(int cpu);

/* Gives all caches another limit. True: one had a higher limit, which maintenance may have given it
 * (sa_cpu_cache_tick), and may hold more. */
bool sa_cpu_cache_change_limit(size_t bytes);

/* Opens a stopped CPU's slab, unless children of vfork hold it (cpu_closed.h); whether it is open.
 */
bool sa_cpu_cache_publish(struct cpu_cache *c, int cpu) SA_REQUIRES(SA_RANK_CPU_CACHE);

/* Stops one CPU: afterwards its slab belongs to the caller. False: the kernel refused the fence,
 * and the caller must change nothing. */
bool sa_cpu_cache_stop(int cpu) SA_REQUIRES(SA_RANK_CPU_CACHE);

/* Ends the program if a CPU's capacities and what is available exceed its limit, or a header is out
 * of its bounds. Stops each CPU for that moment. Debug builds call it at ticks. */
void sa_cpu_cache_validate(void);

enum sa_miss { SA_MISS_NONE, SA_MISS_UNDERFLOW, SA_MISS_OVERFLOW };

/*
 * Gives a class that missed on the current CPU more capacity, where that would have helped: always
 * if its capacity is small, else if misses of both kinds alternate and are frequent. A run of
 * misses of one kind only means that the load grows or shrinks. Returns the capacity afterwards.
 */
uint32_t sa_cpu_cache_grow(struct cpu_cache *c, int cpu, unsigned cls, enum sa_miss kind);

#endif
