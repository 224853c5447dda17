/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the per-CPU caches, their number and their limit, and the counted batches that slow
 * paths move. cpu_cache_internal.h says who may touch a cache, and how allocations and frees are
 * counted.
 *
 * The first slow path on a CPU makes its entry, with populate_lock held. Entries stay.
 */
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/os/rseq.h"
#include "alloc/os/vm.h"
#include "sampling/sampler/sampler.h"

#include "alloc/base/layout.h"

#define THREADS_LIMIT (32l << 20) /* bytes in the caches of all threads, without rseq */
#define THREAD_MIN    (64l << 10) /* bytes that each of them may have in any case */

SA_LAYOUT_USED struct cpu_cache *sa_cpu_caches[SA_SLABS];
SA_START_DATA uint32_t sa_cpu_cache_forks;
uint64_t sa_slab_closed[sizeof(struct sa_slab) / sizeof(uint64_t) + SA_HOLDS_MAX]
    __attribute__((aligned(SA_CACHELINE)));

static unsigned populated SA_GUARDED_BY(SA_RANK_CPU_CACHE); /* caches that were made */
static SA_START_DATA struct sa_lock populate_lock; /* CPU_CACHE: held while a cache is made */
static SA_START_DATA int cpu_count SA_GUARDED_BY(SA_RANK_CPU_CACHE); /* read without the lock */
static SA_START_DATA int64_t limit_default;                          /* atomic, relaxed */

/* Allocations and frees that used no cache. Atomic: see cpu_count_before. */
SA_LAYOUT_USED struct sa_cpu_outside sa_cpu_outside[SA_CLASSES_MAX];

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE_ALL("cpu_count", cpu_count),
    SA_LAYOUT_STATE_ALL("cpu_limit", limit_default),
    SA_LAYOUT_STATE_ALL("sa_cpu_outside", sa_cpu_outside),
};
SA_LAYOUT_STATIC_ADDRESS("cpu_count", cpu_count);
SA_LAYOUT_STATIC_ADDRESS("cpu_limit", limit_default);
SA_LAYOUT_ADDRESS(sa_cpu_outside);
SA_LAYOUT_ADDRESS(sa_cpu_caches);

void sa_cpu_cache_init(size_t limit_bytes)
{
    limit_default = (int64_t)limit_bytes;
    sa_hot.slab_guard[0] = sa_hot.slab_guard[1] = &sa_slab_empty;
    /* Only the entries of CPUs that exist: to touch all of them would take 1/10 of the run time of
     * a process that does nothing else. A thread's entry is set when the thread gets its number. */
    for (size_t i = 0; i < (sa_rseq.per_cpu ? sa_rseq.cpus : 1); i++)
        sa_hot.slabs[i] = &sa_slab_empty;
}

SA_STATIC_ASSERT(sizeof(struct cpu_cache) <= SA_SLAB_BEGIN && SA_SLAB_BEGIN % SA_CACHELINE == 0,
                 "room before the slab");

SA_RARE size_t sa_cpu_cache_slab_bytes(void)
{
    size_t n = 0, each;

    each = sa_align_up(SA_SLAB_BEGIN + sa_size_classes.slab_words * 8ul, sa_vm.page_bytes);
    for (int i = 0; i < sa_cpu_cache_count(); i++)
        n += cpu_cache_get(i) ? each : 0;
    return n;
}

/* The limit of a new cache. Caches of threads, of which there may be many more than CPUs, share
 * THREADS_LIMIT. */
static int64_t cpu_limit(void)
{
    int64_t limit = sa_load_relaxed(&limit_default);
    int64_t share = THREADS_LIMIT / (sa_load_relaxed(&cpu_count) + 1);

    if (sa_rseq.per_cpu || share > limit)
        return limit;
    return share > THREAD_MIN ? share : THREAD_MIN;
}

bool sa_cpu_cache_populate(int cpu)
{
    size_t bytes = sa_align_up(SA_SLAB_BEGIN + sa_size_classes.slab_words * 8ul, sa_vm.page_bytes);
    struct cpu_cache *c;

    SA_DCHECK(cpu >= 0 && cpu < SA_SLABS && (!sa_rseq.per_cpu || (unsigned)cpu < sa_rseq.cpus));
    sa_lock_acquire(&populate_lock, SA_RANK_CPU_CACHE);
    c = sa_cpu_caches[cpu];
    if (!c) {
        c = sa_vm_map(NULL, bytes, "salloc:cpu cache");
        if (c) {
            c->slab = (struct sa_slab *)((char *)c + SA_SLAB_BEGIN);
            c->limit_bytes = c->available_bytes = cpu_limit();
            c->stream = populated++;
            c->rng = sa_sampler_stream(c->stream);
            c->forks = sa_cpu_cache_forks;
            for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
                c->countdown_cap[cls] = COUNTDOWN_CAP_MIN;
                c->slab->header[cls].slots = (void **)c->slab + sa_size_classes.of[cls].near_begin;
            }
            /* In this order: a thread that finds the cache may acquire its lock and stop the CPU,
             * which must not be opened then. A thread that finds the CPU open and no cache goes
             * without one. */
            sa_slab_open(cpu, c->slab);
            sa_store_release(&sa_cpu_caches[cpu], c);
            if (cpu >= sa_load_relaxed(&cpu_count))
                sa_store_release(&cpu_count, cpu + 1);
        }
    }
    sa_lock_release(&populate_lock, SA_RANK_CPU_CACHE);
    return c != NULL;
}

SA_RARE void sa_cpu_cache_prepare(int cpu)
{
    if (cpu < SA_SLABS && sa_cpu_cache_populate(cpu))
        sa_vm_populate(
            sa_cpu_caches[cpu],
            sa_align_up(SA_SLAB_BEGIN + sa_size_classes.slab_words * 8ul, sa_vm.page_bytes));
}

/* Adds to a sum between the stores before and after, also on processors that reorder stores. */
SA_NOINLINE void sa_cpu_count(uint64_t *sum, uint64_t more)
{
    __atomic_thread_fence(__ATOMIC_RELEASE);
    sa_count_shared(sum, more);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

SA_NOINLINE size_t sa_cpu_cache_push_batch(struct cpu_cache *c, unsigned cls, void *const *objs,
                                           size_t n)
{
    size_t pushed;

    cpu_count_before(&c->frees[cls], n);
    pushed = sa_percpu_push_batch(cls, objs, n);
    SA_DCHECK(pushed <= n);
    if (pushed < n)
        cpu_count_after(&c->frees[cls], n - pushed);
    return pushed;
}

SA_NOINLINE size_t sa_cpu_cache_pop_batch(struct cpu_cache *c, unsigned cls, void **objs, size_t n)
{
    size_t popped = sa_percpu_pop_batch(cls, objs, n);

    SA_DCHECK(popped <= n);
    if (popped)
        cpu_count_after(&c->frees[cls], popped);
    return popped;
}

SA_RARE size_t sa_cpu_cache_threads_limit(void)
{
    return THREADS_LIMIT;
}

SA_FORK void sa_cpu_cache_kick(void)
{
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++)
        if (cpu_cache_get(cpu))
            sa_slab_close(cpu);
}

int sa_cpu_cache_count(void)
{
    return sa_load_acquire(&cpu_count);
}

size_t sa_cpu_cache_limit(void)
{
    return (size_t)sa_load_relaxed(&limit_default);
}

SA_RARE bool sa_cpu_cache_change_limit(size_t bytes)
{
    int count = sa_cpu_cache_count();
    bool less = false;

    sa_store_relaxed(&limit_default, (int64_t)bytes);
    for (int cpu = 0; cpu < count; cpu++) {
        struct cpu_cache *c = cpu_cache_get(cpu);
        int64_t more;

        if (!c)
            continue;
        more = (int64_t)bytes - sa_load_relaxed(&c->limit_bytes);
        /* `available` may become negative: no class grows until enough has been given back. It
         * never is above what the limit leaves: it falls first, and rises last. */
        if (more < 0) {
            less = true;
            sa_add_relaxed(&c->available_bytes, more);
        }
        sa_add_relaxed(&c->limit_bytes, more);
        if (more > 0)
            sa_add_relaxed(&c->available_bytes, more);
    }
    return less;
}
