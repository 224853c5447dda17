/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The per-CPU caches, seen from the slow paths: filling and emptying them in batches, sharing out
 * their capacity, stopping them. The fast paths use the sequences of alloc/os/percpu.h directly.
 *
 * Where rseq is missing "CPU" reads "thread": each thread that allocates has a slab of its own, and
 * only its owner (or nobody) works on it.
 */
#ifndef SA_CPU_CACHE_CPU_CACHE_H
#define SA_CPU_CACHE_CPU_CACHE_H

#include "alloc/fork/cpu_closed.h"
#include "alloc/hot/hot.h"
#include "alloc/page_heap/account/peak.h"
#include "sampling/sampler/sampler.h"

struct sa_cpu_cache_stats {
    bool populated;
    size_t used_bytes;        /* objects cached */
    size_t capacity_bytes;    /* slots times size */
    size_t unallocated_bytes; /* of the limit: in no class's capacity */
    size_t limit_bytes;
    uint64_t underflows, overflows, reclaims;
};

struct sa_cpu_class_stats {
    size_t objects;  /* cached on all CPUs */
    size_t min, max; /* capacity over populated CPUs */
    double average;
    size_t allowed;
    uint64_t allocations, frees; /* ever; exact at rest, and never less than before */
};

/* Before any allocation: what every CPU's slab is until it is first used. */
void sa_cpu_cache_init(size_t limit_bytes);

/*
 * Whether the current CPU's countdown has ended with a success, which then is the caller's: the
 * beginning of an allocation that has left the fast path. A change of the probabilities voids a
 * success that nobody has claimed, and a failure needs no claim, so nothing may come between the
 * fast path and this. cls 0: there is none.
 */
void sa_cpu_cache_claim(unsigned cls, struct sa_sampling_decision *ret_decision);

/* Counts what caches hold; the rest is in use. */
void sa_cpu_cache_count_use(void);

/*
 * An object of the class; NULL when out of memory. *decision: what was claimed, then whether this
 * allocation is to be sampled, and how likely that was.
 */
void *sa_cpu_cache_alloc(unsigned cls, struct sa_sampling_decision *decision);

/* A block is the program's from now on, which may have more in use than ever before: see
 * alloc/page_heap/account/peak.h. */
SA_INLINE void sa_cpu_cache_note_use(void)
{
    if (SA_UNLIKELY(sa_in_use_may_be_peak()) && !sa_in_use_must_wait())
        sa_cpu_cache_count_use();
}

/* Whether an allocation would find a cached object; a hint. */
bool sa_cpu_cache_has(unsigned cls);

/* Ends the program if the object, which is said to be in use, is the one that the current CPU's
 * cache took back last. */
void sa_cpu_cache_check_freed(unsigned cls, void *obj);

/* Whether an object is to be sampled that was not popped; it counts as an allocation. */
void sa_cpu_cache_try(unsigned cls, struct sa_sampling_decision *ret_decision);

/* Takes an object back. The caller has checked that it is one of the class. */
void sa_cpu_cache_free(unsigned cls, void *obj);

/* Counts an allocation of the class that takes no object. Its decision was claimed, so that the
 * countdown has ended: draws the next one. */
void sa_cpu_cache_count_alloc(unsigned cls, struct sa_sampling_decision *decision);

/* Counts a free of a block of the class whose object does not come back, or later, by
 * sa_cpu_cache_return. */
void sa_cpu_cache_count_free(unsigned cls);

/* As sa_cpu_cache_free, but no free that counts. */
void sa_cpu_cache_return(unsigned cls, void *obj);

/*
 * Sends the next operation on every CPU to the slow path once, where countdowns are shortened so
 * that the CPU comes by again soon. Costs a store per CPU.
 */
void sa_cpu_cache_kick(void);

/*
 * Voids all countdowns, after probabilities have changed: when it returns, no allocation that
 * begins then is tried with the old ones.
 */
void sa_cpu_cache_rearm(void);

/* Moves capacity from CPUs that rarely miss to those that do, and empties idle ones. */
void sa_cpu_cache_tick(void);

/* Empties one CPU's cache (all of them: cpu < 0); bytes that it held. Per-thread caches of other
 * threads cannot be emptied and are left alone. */
size_t sa_cpu_cache_drain(int cpu);

#define SA_CPU_CACHE_MAX (1ul << 30) /* bytes, for each CPU */

/* Makes the cache of a CPU, and touches its memory. */
void sa_cpu_cache_prepare(int cpu);

/* The capacity limit of each CPU; takes effect as caches are drained and grow. */
size_t sa_cpu_cache_limit(void);
void sa_cpu_cache_set_limit(size_t bytes);

/* What the caches of all threads together may hold, where there are such; each may have a little in
 * any case. */
size_t sa_cpu_cache_threads_limit(void);

/* One above the highest populated CPU. */
int sa_cpu_cache_count(void);
void sa_cpu_cache_stats(int cpu, struct sa_cpu_cache_stats *ret);
void sa_cpu_cache_class_stats(unsigned cls, struct sa_cpu_class_stats *ret);

/* Address space of all slabs. */
size_t sa_cpu_cache_slab_bytes(void);

/* fork: before, no CPU may be in a sequence on its slab (false: that could not be achieved);
 * afterwards all resume. */
bool sa_cpu_cache_stop_all(void);
void sa_cpu_cache_resume_all(void);

/*
 * In a child of fork, after sa_sampler_after_fork: the next operation on each CPU gives it a
 * generator of the child's own and voids what was drawn before. What was drawn says nothing of the
 * child's allocations, which have decisions of their own. Each cache is written to by whoever uses
 * it: a child that ends soon copies one, not those of all CPUs.
 */
void sa_cpu_cache_after_fork(void);

/*
 * After that, in a child with other threads that could not be fenced: gives all CPUs generators of
 * the child's own, and leaves the countdowns as they are. To void them would write headers that a
 * sequence may be about to write. What was drawn before then decides about the child's first
 * samples, as in its parent.
 */
void sa_cpu_cache_keep_countdowns(void);

/* In a child of fork: forgets what caches hold that could not be stopped, all but one. */
void sa_cpu_cache_abandon_others(int own);

#endif
