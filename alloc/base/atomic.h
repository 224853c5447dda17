/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic access with the memory order in the name. There is no default order: whoever needs
 * sequential consistency writes it and says why. Relaxed accesses make a racy read or a
 * statistics counter defined behaviour and promise nothing else.
 */
#ifndef SA_BASE_ATOMIC_H
#define SA_BASE_ATOMIC_H

#include "alloc/base/preempt.h"

/* A step that others may see before or after theirs. */
#define SA_STEP(access) (sa_preempt(), access)

#define sa_load_relaxed(p)     __atomic_load_n((p), __ATOMIC_RELAXED)
#define sa_load_acquire(p)     SA_STEP(__atomic_load_n((p), __ATOMIC_ACQUIRE))
#define sa_load_seq_cst(p)     SA_STEP(__atomic_load_n((p), __ATOMIC_SEQ_CST))
#define sa_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define sa_store_release(p, v) SA_STEP(__atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define sa_store_seq_cst(p, v) SA_STEP(__atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
#define sa_add_relaxed(p, v)   __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define sa_sub_relaxed(p, v)   __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define sa_sub_release(p, v)   SA_STEP(__atomic_fetch_sub((p), (v), __ATOMIC_RELEASE))
#define sa_add_seq_cst(p, v)   SA_STEP(__atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define sa_xchg_acquire(p, v)  SA_STEP(__atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE))
#define sa_xchg_release(p, v)  SA_STEP(__atomic_exchange_n((p), (v), __ATOMIC_RELEASE))

/* Strong compare and swap; on failure *expect receives the value seen. */
#define sa_cas_acquire(p, expect, v)                                                               \
    SA_STEP(__atomic_compare_exchange_n((p), (expect), (v), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
#define sa_cas_relaxed(p, expect, v)                                                               \
    SA_STEP(__atomic_compare_exchange_n((p), (expect), (v), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
#define sa_cas_release(p, expect, v)                                                               \
    SA_STEP(__atomic_compare_exchange_n((p), (expect), (v), 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))

/* Keeps the order of what is before and after, as a signal handler of this thread sees it. */
#define sa_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/*
 * A counter with one writer at a time (its lock is held): no locked instruction, and readers
 * without the lock see some recent value.
 */
#define sa_count_add(p, v) sa_store_relaxed((p), sa_load_relaxed(p) + (v))

#endif
