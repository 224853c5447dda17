/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic accesses whose names state the memory order. There is no default order: a caller that
 * needs sequential consistency writes it out and says why. Relaxed accesses give a racy read or a
 * statistics counter defined behaviour. They order nothing.
 *
 * The macros hold no state. Each shared variable states, where it is declared, which of them its
 * users need.
 */
#ifndef SA_BASE_ATOMIC_H
#define SA_BASE_ATOMIC_H

#include "alloc/base/preempt.h"

/* Marks an access that orders other accesses: builds with delays (preempt.h) may delay the thread
 * before it. */
#define SA_STEP(access) (sa_preempt(), access)

#define sa_load_relaxed(p)     __atomic_load_n((p), __ATOMIC_RELAXED)
#define sa_load_acquire(p)     SA_STEP(__atomic_load_n((p), __ATOMIC_ACQUIRE))
#define sa_load_seq_cst(p)     SA_STEP(__atomic_load_n((p), __ATOMIC_SEQ_CST))
#define sa_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define sa_store_release(p, v) SA_STEP(__atomic_store_n((p), (v), __ATOMIC_RELEASE))
#define sa_store_seq_cst(p, v) SA_STEP(__atomic_store_n((p), (v), __ATOMIC_SEQ_CST))
/* Stores a value that is another one: a page of which a child of fork writes nothing is not copied.
 */
#define sa_store_changed(p, v)                                                                     \
    do {                                                                                           \
        if (sa_load_relaxed(p) != (v))                                                             \
            sa_store_relaxed(p, v);                                                                \
    } while (0)
#define sa_add_relaxed(p, v)  __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define sa_sub_relaxed(p, v)  __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define sa_sub_release(p, v)  SA_STEP(__atomic_fetch_sub((p), (v), __ATOMIC_RELEASE))
#define sa_add_seq_cst(p, v)  SA_STEP(__atomic_fetch_add((p), (v), __ATOMIC_SEQ_CST))
#define sa_xchg_acquire(p, v) SA_STEP(__atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE))
#define sa_xchg_release(p, v) SA_STEP(__atomic_exchange_n((p), (v), __ATOMIC_RELEASE))

/* Strong compare and swap: true on success. On failure, *expect receives the value in memory. A
 * failure orders nothing. */
#define sa_cas_acquire(p, expect, v)                                                               \
    SA_STEP(__atomic_compare_exchange_n((p), (expect), (v), 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
#define sa_cas_relaxed(p, expect, v)                                                               \
    SA_STEP(__atomic_compare_exchange_n((p), (expect), (v), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
#define sa_cas_release(p, expect, v)                                                               \
    SA_STEP(__atomic_compare_exchange_n((p), (expect), (v), 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))

/* Compiler fence: a signal handler of this thread sees the accesses before and after in this order.
 * No instruction. */
#define sa_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)

/*
 * Adds to a counter that has one writer at a time, for example the holder of its lock. The load and
 * the store are separate, so that no locked instruction is needed. Readers without the lock get a
 * recent value.
 */
#define sa_count_add(p, v) sa_store_relaxed((p), sa_load_relaxed(p) + (v))

#endif
