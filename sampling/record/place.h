/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread runs: CPU, virtual CPU, NUMA node, and the L3 cache of a CPU. For recordings of
 * lifetimes, which tell whether a block was freed where it was allocated.
 *
 * The kernel writes the first three into the rseq area (node and virtual CPU since Linux 6.3);
 * without one the vDSO knows CPU and node. Reading a place takes no system call on x86-64.
 */
#ifndef SA_SAMPLING_RECORD_PLACE_H
#define SA_SAMPLING_RECORD_PLACE_H

#include "alloc/base/attrs.h"

#include <stdint.h>

/* Numbers; negative: not known. vcpu: the kernel's mm_cid, dense among the threads of a process
 * that run. */
struct sa_place {
    int16_t cpu, vcpu, node;
};

/* Whether two places agree. */
enum sa_same { SA_SAME_UNKNOWN = -2, SA_SAME_NONE = -1, SA_SAME_NO = 0, SA_SAME_YES = 1 };

SA_INLINE int8_t sa_same(int a, int b)
{
    return a < 0 || b < 0 ? SA_SAME_UNKNOWN : a == b ? SA_SAME_YES : SA_SAME_NO;
}

/* Of the calling thread, now. */
void sa_place_here(struct sa_place *ret);

/*
 * Reads which CPUs share an L3 cache from the kernel's files, for those that it was not yet read
 * for. Before the first sa_place_l3; no lock may be held.
 */
void sa_place_learn_caches(void);

/* The number of a CPU's L3 cache: that of the first CPU that shares it. Negative: not known. */
int sa_place_l3(int cpu);

#endif
