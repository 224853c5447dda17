/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places: the CPU, virtual CPU and NUMA node of a thread, and the L3 cache of a CPU. Recordings of
 * lifetimes say with them whether a block was freed where it was allocated.
 *
 * The kernel writes the first three into the rseq area (node and virtual CPU since Linux 6.3).
 * Without an rseq area, the vDSO gives CPU and node. Reading a place takes no system call on
 * x86-64.
 */
#ifndef SA_SAMPLING_RECORD_PLACE_H
#define SA_SAMPLING_RECORD_PLACE_H

#include "alloc/base/attrs.h"

#include <stdint.h>

/* Numbers; negative: unknown. vcpu: the kernel's mm_cid, which is dense among the running threads
 * of a process. */
struct sa_place {
    int16_t cpu, vcpu, node;
};

/* Whether two numbers are the same. NONE: no comparison applies. */
enum sa_same { SA_SAME_UNKNOWN = -2, SA_SAME_NONE = -1, SA_SAME_NO = 0, SA_SAME_YES = 1 };

SA_INLINE int8_t sa_same(int a, int b)
{
    return a < 0 || b < 0 ? SA_SAME_UNKNOWN : a == b ? SA_SAME_YES : SA_SAME_NO;
}

/* Reads the place of the calling thread. Async-signal-safe; no lock. */
void sa_place_here(struct sa_place *ret);

/*
 * Reads from the kernel's files which CPUs share an L3 cache, for CPUs that were not read before.
 * Called before the first sa_place_l3. Makes system calls: no lock may be held.
 */
void sa_place_learn_caches(void);

/* The number of a CPU's L3 cache: the number of the first CPU that shares it. Negative: unknown. */
int sa_place_l3(int cpu);

#endif
