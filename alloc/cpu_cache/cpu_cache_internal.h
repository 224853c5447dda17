/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share; see cpu_cache.h. */
#ifndef SA_CPU_CACHE_CPU_CACHE_INTERNAL_H
#define SA_CPU_CACHE_CPU_CACHE_INTERNAL_H

#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/lock.h"

/* Classes that there are, class 0 included: see sa_size_class_init. */
#define CPU_CLASSES 97
SA_STATIC_ASSERT(SA_MID_MAX == 1 << 18, "8 classes up to 128 bytes, and 8 for each doubling");

/*
 * The cold part of a CPU's cache, in the same mapping as its slab, which follows it.
 *
 * The lock (CPU_CACHE) is held by who moves slots, and by who points slabs[cpu] at the empty slab
 * and back, except for sa_cpu_cache_kick, which may be undone at once, and for children of vfork
 * (cpu_closed.h). While it is held and slabs[cpu] has been empty for a fence, the slab belongs to
 * the holder; otherwise it belongs to the sequences running on the CPU.
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
    uint64_t tick_misses, tick_delta, tick_sum; /* MAINTAIN: what the last tick saw */
    uint32_t hand;                              /* racy: where the last steal ended */
    uint32_t unstolen;                          /* racy: misses that might have led to one */
    uint64_t rng;                               /* atomic: countdowns and trials */
    /* sa_cpu_cache_forks when rng was seeded. */
    uint32_t forks SA_GUARDED_BY(SA_RANK_CPU_CACHE);
    uint64_t allocs[CPU_CLASSES], frees[CPU_CLASSES]; /* atomic: see cpu_count_before */
    /* Racy hints, written by the slow paths on this CPU; any value is valid. */
    uint8_t last_miss[CPU_CLASSES];
    uint8_t touched[CPU_CLASSES];
    uint16_t stride[CPU_CLASSES];
    uint32_t expired_ms[CPU_CLASSES];
    uint16_t missed_at[CPU_CLASSES]; /* allocations until the last miss, modulo 2^16 */
    uint16_t apart[CPU_CLASSES];     /* of late from one miss to one of the other kind */
};

extern struct cpu_cache *sa_cpu_caches[SA_SLABS]; /* atomic: published with release */
extern uint32_t sa_cpu_cache_forks;               /* between the first process and this one */

static inline struct cpu_cache *cpu_cache_get(int cpu)
{
    return sa_load_acquire(&sa_cpu_caches[cpu]);
}

static inline uint64_t cpu_state(const struct sa_slab *slab, unsigned cls)
{
    return sa_load_relaxed(&slab->header[cls].state);
}

/*
 * Allocations and frees are counted at no instruction of the fast paths: a pop takes one off the
 * countdown and off what is filled, a push adds one to what is filled. With what slow paths do to
 * the two,
 *
 *   allocs[cls] = sum of what countdowns were made longer by, and allocations that were no pop
 *   frees[cls] = sum of what was filled less by other than pops and pushes, and frees less
 *   allocations that were neither
 *
 * the allocations ever are allocs - until, and the frees ever are that + frees + filled, as sums
 * over all CPUs (a slow path may have moved to another CPU than the one that it adds to). Both sums
 * are modulo 2^64.
 *
 * What is read while a slow path is between its change and its count is too little, never too much:
 * what makes a sum smaller is counted before the change that it is for, what makes it larger after
 * it. What was counted for a change that was then not made is taken back as what makes the sum
 * larger.
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

/* The same of allocations and frees that found no cache to use. */
struct sa_cpu_outside {
    uint64_t allocs, frees;
};

extern struct sa_cpu_outside sa_cpu_outside[SA_CLASSES_MAX];

/* As the sequences, of objects that the program neither allocates nor frees. */
size_t sa_cpu_cache_push_batch(struct cpu_cache *c, unsigned cls, void *const *objs, size_t n);
size_t sa_cpu_cache_pop_batch(struct cpu_cache *c, unsigned cls, void **objs, size_t n);

/* The first countdowns of a class on a CPU: allocations. */
#define STRIDE_MIN 16

/* First use of a CPU: makes its cache, empty and without capacity. False when out of memory. */
bool sa_cpu_cache_populate(int cpu);

/* Gives all caches another limit; whether it is less than before, so that they may hold more than
 * it. */
bool sa_cpu_cache_change_limit(size_t bytes);

/* Opens a stopped CPU's slab, unless children of vfork hold it (cpu_closed.h); whether it is open.
 */
bool sa_cpu_cache_publish(struct cpu_cache *c, int cpu) SA_REQUIRES(SA_RANK_CPU_CACHE);

/* Stops one CPU: afterwards its slab belongs to the caller. False: the kernel refused the fence,
 * and the caller must change nothing. */
bool sa_cpu_cache_stop(int cpu) SA_REQUIRES(SA_RANK_CPU_CACHE);

/* Debug builds: ends the program if a CPU's capacities and what is available exceed its limit, or a
 * header is out of its bounds. Stops each CPU for that moment. */
#ifdef SA_DEBUG
void sa_cpu_cache_validate(void);
#else
#define sa_cpu_cache_validate() ((void)0)
#endif

enum sa_miss { SA_MISS_NONE, SA_MISS_UNDERFLOW, SA_MISS_OVERFLOW };

/*
 * A class missed on the current CPU: gives it more capacity where that would have helped, which is
 * always for a small one, and else when misses alternate (a run of one kind only means that the
 * load grows or shrinks) and are frequent. The capacity afterwards.
 */
uint32_t sa_cpu_cache_grow(struct cpu_cache *c, int cpu, unsigned cls, enum sa_miss kind);

#endif
