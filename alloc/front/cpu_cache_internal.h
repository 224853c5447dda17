/* SPDX-License-Identifier: Apache-2.0 */
/* What cpu_cache.c, cpu_cache_capacity.c and cpu_cache_balance.c share; see cpu_cache.h. */
#ifndef SA_FRONT_CPU_CACHE_INTERNAL_H
#define SA_FRONT_CPU_CACHE_INTERNAL_H

#include "alloc/base/size_class.h"
#include "alloc/front/cpu_cache.h"
#include "alloc/os/lock.h"

/*
 * The cold part of a CPU's cache, in the same mapping as its slab, which follows it.
 *
 * The lock (CPU_CACHE) is held by who moves slots, and by who points slabs[cpu] at the empty slab and back, except for
 * sa_cpu_cache_kick, whose store may be lost. While it is held and slabs[cpu] has been empty for a
 * fence, the slab belongs to the holder; otherwise it belongs to the sequences running on the CPU.
 *
 * Conservation: limit = available + sum over classes of cap * size. Capacity is taken from and
 * returned to `available` before and after the header changes; a failed change is undone.
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
    uint32_t forks;                  /* CPU_CACHE: sa_cpu_cache_forks when rng was seeded */
    uint64_t passed[SA_CLASSES_MAX]; /* atomic, relaxed: allocations, see cpu_rearm */
    /* Racy hints, written by the slow paths on this CPU; any value is valid. */
    uint8_t last_miss[SA_CLASSES_MAX];
    uint8_t touched[SA_CLASSES_MAX];
    uint16_t stride[SA_CLASSES_MAX];
    uint16_t armed[SA_CLASSES_MAX]; /* length of the countdown that runs */
    uint32_t expired_ms[SA_CLASSES_MAX];
    uint16_t missed_at[SA_CLASSES_MAX]; /* allocations until the last miss, modulo 2^16 */
    uint16_t apart[SA_CLASSES_MAX];     /* of late from one miss to one of the other kind */
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

/* Counts the allocations of a countdown that has been cut short. */
static inline void cpu_count_voided(struct cpu_cache *c, unsigned cls, uint64_t state)
{
    if (c->armed[cls] > sa_state_until(state))
        sa_add_relaxed(&c->passed[cls], c->armed[cls] - sa_state_until(state));
    c->armed[cls] = 0;
}

/* Sets a stopped CPU going. Under its lock. */
void sa_cpu_cache_publish(struct cpu_cache *c, int cpu);

enum sa_miss { SA_MISS_NONE, SA_MISS_UNDERFLOW, SA_MISS_OVERFLOW };

/*
 * A class missed on the current CPU: gives it more capacity where that would have helped, which is always for a small
 * one, and else when misses alternate (a run of one kind only means that the load grows or
 * shrinks) and are frequent. The capacity afterwards.
 */
uint32_t sa_cpu_cache_grow(struct cpu_cache *c, int cpu, unsigned cls, enum sa_miss kind);

#endif
