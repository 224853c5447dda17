/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed entries of sa_hot.slabs, the array of pointers to the slabs. An open entry points to the
 * slab of its CPU. A closed entry points into an array of zeros, in which every class is empty and
 * has no capacity. Every critical section on such a CPU leaves for the slow path.
 *
 *   sa_slab_closed       no hold: a slow path that has the cache's lock may open the entry
 *   sa_slab_closed + n   n > 0 holds: n children of vfork read this CPU's number (vfork.h)
 *
 * Who writes an entry: any thread may close it or change its holds, by compare and swap. Only the
 * holder of the cache's lock (CPU_CACHE) opens it, and the first time the thread that makes the
 * cache, before other threads can find it. The entry itself counts the holds, so that one compare
 * and swap reads and changes both. A lock would not do, because a signal handler could find it held
 * by the code that it has interrupted. The swap that opens an entry expects sa_slab_closed, and
 * therefore fails while there are holds.
 */
#ifndef SA_FORK_CPU_CLOSED_H
#define SA_FORK_CPU_CLOSED_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/hot/hot.h"
#include "alloc/os/lock.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_HOLDS_MAX 240 /* of one CPU; each hold is a thread that waits for its child */

/* The closed slab. It reads as zeros from each address that stands for a number of holds. Never
 * written. */
extern uint64_t sa_slab_closed[sizeof(struct sa_slab) / sizeof(uint64_t) + SA_HOLDS_MAX];

/* The closed entry without holds. */
#define sa_slab_empty (*(struct sa_slab *)sa_slab_closed)

/* True if an entry is closed, with or without holds. */
SA_INLINE bool sa_slab_is_closed(const struct sa_slab *slab)
{
    return (uintptr_t)slab - (uintptr_t)sa_slab_closed <= SA_HOLDS_MAX * sizeof(uint64_t);
}

/* True if an entry has holds. */
SA_INLINE bool sa_slab_is_held(const struct sa_slab *slab)
{
    return (uintptr_t)slab - (uintptr_t)sa_slab_closed - 1 < SA_HOLDS_MAX * sizeof(uint64_t);
}

/* Closes a CPU's entry; its holds stay. Critical sections that begin later leave for the slow path.
 * Those that have begun go on, until a fence of the caller stops them. */
SA_INLINE void sa_slab_close(int cpu)
{
    struct sa_slab *is = sa_load_relaxed(&sa_hot.slabs[cpu]);

    while (!sa_slab_is_closed(is) && !sa_cas_acquire(&sa_hot.slabs[cpu], &is, &sa_slab_empty))
        ;
}

/* Opens the CPU's entry. False: children of vfork hold the CPU, and the entry stays closed. */
SA_INLINE bool sa_slab_open(int cpu, struct sa_slab *slab) SA_REQUIRES(SA_RANK_CPU_CACHE)
{
    struct sa_slab *is = &sa_slab_empty;

    return sa_cas_release(&sa_hot.slabs[cpu], &is, slab) || is == slab;
}

#endif
