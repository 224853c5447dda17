/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closed entries of sa_hot.slabs. An entry is open if it is the CPU's slab. Closed it is the
 * address of a slab of zeros, on which every sequence leaves for the slow path:
 *
 *   sa_slab_closed       nobody needs the CPU closed: a slow path may open it, under its lock
 *   sa_slab_closed + n   n > 0 holds: n children of vfork read this CPU's number (vfork.h)
 *
 * Holds are counted in the entry itself, so that one compare and swap tells what the entry is and
 * changes it: no lock, which a signal handler could find held by the code that it has interrupted.
 * An open entry is closed by a swap; a closed one is opened by a swap that expects sa_slab_closed,
 * and so fails while there are holds.
 */
#ifndef SA_FORK_CPU_CLOSED_H
#define SA_FORK_CPU_CLOSED_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/hot/hot.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_HOLDS_MAX 240 /* of one CPU; each is a thread that waits for its child */

/* All zero, also from each of the addresses that stand for holds. Never written. */
extern uint64_t sa_slab_closed[sizeof(struct sa_slab) / sizeof(uint64_t) + SA_HOLDS_MAX];

/* Of entries without holds. */
#define sa_slab_empty (*(struct sa_slab *)sa_slab_closed)

SA_INLINE bool sa_slab_is_closed(const struct sa_slab *slab)
{
    return (uintptr_t)slab - (uintptr_t)sa_slab_closed <= SA_HOLDS_MAX * sizeof(uint64_t);
}

SA_INLINE bool sa_slab_is_held(const struct sa_slab *slab)
{
    return (uintptr_t)slab - (uintptr_t)sa_slab_closed - 1 < SA_HOLDS_MAX * sizeof(uint64_t);
}

/* Sends the CPU's operations to the slow path, but for those that have begun; a fence stops
 * them. */
SA_INLINE void sa_slab_close(int cpu)
{
    struct sa_slab *is = sa_load_relaxed(&sa_hot.slabs[cpu]);

    while (!sa_slab_is_closed(is) && !sa_cas_acquire(&sa_hot.slabs[cpu], &is, &sa_slab_empty))
        ;
}

/* Under the cache's lock. False: the entry is held, and stays closed. */
SA_INLINE bool sa_slab_open(int cpu, struct sa_slab *slab)
{
    struct sa_slab *is = &sa_slab_empty;

    return sa_cas_release(&sa_hot.slabs[cpu], &is, slab) || is == slab;
}

#endif
