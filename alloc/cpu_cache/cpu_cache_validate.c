/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the per-CPU caches: the headers of each slab, and the conservation of capacity
 * (cpu_cache_internal.h). From maintenance, after each tick.
 */
#include "alloc/base/fatal.h"
#include "alloc/base/single_threaded.h"
#include "alloc/cpu_cache/cpu_cache_internal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/rseq.h"
#include "alloc/os/thread.h"

/* The capacities of a stopped slab, in bytes, after its headers have been checked. */
static int64_t check_headers(const struct cpu_cache *c)
{
    void *const *first = (void *const *)c->slab, *const *end = first + sa_size_classes.slab_words;
    int64_t bytes = 0;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        uint64_t h = cpu_state(c->slab, cls);
        void *const *slots = sa_load_relaxed(&c->slab->header[cls].slots);

        SA_CHECK(sa_state_avail(h) <= sa_state_cap(h) && sa_state_cap(h) <= k->max);
        SA_CHECK(slots > first && slots + sa_state_cap(h) <= end && slots[-1] == NULL);
        for (uint32_t i = 0; i < sa_state_avail(h); i++)
            SA_CHECK(slots[i] != NULL);
        bytes += (int64_t)sa_state_cap(h) * k->size;
    }
    return bytes;
}

/*
 * The limit is read before and after what is available: another thread may change both. It lowers
 * `available` first and raises it last, so the larger of the two limits bounds the sum. In a
 * process of one thread no slow path is under way, and the sum is exact.
 */
static void check_cache(const struct cpu_cache *c)
{
    int64_t before = sa_load_acquire(&c->limit_bytes);
    int64_t sum = sa_load_acquire(&c->available_bytes) + check_headers(c);
    int64_t after = sa_load_acquire(&c->limit_bytes);

    SA_CHECK(sum <= (before > after ? before : after));
    if (sa_single_threaded() && sa_thread.gate_depth <= 1)
        SA_CHECK(sum == after);
}

/* The slab of a CPU stays closed if it was closed before: the CPU is to take the slow path once. */
static void validate_cpu(struct cpu_cache *c, int cpu)
{
    bool closed = sa_slab_is_closed(sa_load_relaxed(&sa_hot.slabs[cpu]));

    if (!sa_lock_try(&c->lock, SA_RANK_CPU_CACHE))
        return;
    if (sa_cpu_cache_stop(cpu))
        check_cache(c);
    if (!closed && !sa_fork_gate_is_closed())
        sa_cpu_cache_publish(c, cpu);
    sa_lock_release(&c->lock, SA_RANK_CPU_CACHE);
}

/* Where caches belong to threads, no cache but the own one can be stopped; none is checked. */
void sa_cpu_cache_validate(void)
{
    int count = sa_cpu_cache_count();

    if (!sa_rseq.per_cpu || !sa_rseq_can_fence())
        return;
    for (int cpu = 0; cpu < count; cpu++)
        if (cpu_cache_get(cpu))
            validate_cpu(cpu_cache_get(cpu), cpu);
}
