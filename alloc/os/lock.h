/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A futex lock of one word: 0 free, 1 held, 2 held and a thread may wait. A thread spins LOCK_SPINS
 * times before it sleeps, because locks are held for short times. Acquire orders after the release
 * of the previous holder, and promises nothing else. Not recursive. A process of one thread needs
 * no locked instruction (single_threaded.h). Debug builds check the order of lock_ranks.def, clang
 * the annotations of alloc/base/thread_safety.h.
 */
#ifndef SA_OS_LOCK_H
#define SA_OS_LOCK_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/single_threaded.h"
#include "alloc/base/thread_safety.h"

#include <stdbool.h>
#include <stdint.h>

enum sa_lock_rank {
#define SA_LOCK_RANK(name, what) SA_RANK_##name,
#include "alloc/os/lock_ranks.def"
#undef SA_LOCK_RANK
    SA_RANKS
};

/* The capability of the annotations is the rank of the lock: thread_safety.h. */
struct sa_lock {
    uint32_t word; /* atomic */
};

/* Slow paths: wait for the lock and take it; wake one thread that waits. */
void sa_lock_wait(struct sa_lock *lock);
void sa_lock_wake(struct sa_lock *lock);

/* Releases the lock and acquires it again. A thread that waits for it gets it in between. */
void sa_lock_yield(struct sa_lock *lock, enum sa_lock_rank rank) SA_REQUIRES(rank);

/* The rank checker of debug builds. The order of the calls is: check, wait for the lock, acquired;
 * and released, give the lock up. So a signal handler finds no rank held whose lock is free. */
#ifdef SA_DEBUG
void sa_lock_rank_check(enum sa_lock_rank rank);
void sa_lock_rank_acquired(enum sa_lock_rank rank);
void sa_lock_rank_released(enum sa_lock_rank rank);
SA_COLD void sa_lock_rank_assert(enum sa_lock_rank rank, const char *file, int line)
    SA_ASSERT_HELD(rank);
#else
#define sa_lock_rank_check(rank)    ((void)(rank))
#define sa_lock_rank_acquired(rank) ((void)(rank))
#define sa_lock_rank_released(rank) ((void)(rank))

SA_INLINE void sa_lock_rank_assert(enum sa_lock_rank rank, const char *file, int line)
    SA_ASSERT_HELD(rank)
{
    (void)rank, (void)file, (void)line;
}
#endif

/*
 * This thread holds a lock of that rank. A debug build ends the program if not; other builds
 * contain no code for it. clang's analysis takes the rank for held from here on: for functions
 * that are called through pointers, which SA_REQUIRES cannot annotate.
 */
#define SA_DCHECK_HELD(rank) sa_lock_rank_assert(rank, __FILE__, __LINE__)

/* Changes the word from 0 to 1, or fails. A signal handler that comes between the load and the
 * store leaves the lock as it was. */
SA_INLINE bool sa_lock_take(struct sa_lock *lock)
{
    uint32_t free_word = 0;

    if (!sa_single_threaded())
        return sa_cas_acquire(&lock->word, &free_word, 1);
    if (sa_load_relaxed(&lock->word) != 0)
        return false;
    sa_store_relaxed(&lock->word, 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return true;
}

/* Changes the word to 0 with release order. Returns what it was. */
SA_INLINE uint32_t sa_lock_give(struct sa_lock *lock)
{
    uint32_t word;

    if (!sa_single_threaded())
        return sa_xchg_release(&lock->word, 0);
    word = sa_load_relaxed(&lock->word);
    sa_store_release(&lock->word, 0);
    return word;
}

/* The functions below are what the analysis takes for locking: it does not look inside. */
SA_INLINE void sa_lock_acquire(struct sa_lock *lock, enum sa_lock_rank rank)
    SA_ACQUIRE(rank) SA_NO_THREAD_SAFETY_ANALYSIS
{
    sa_lock_rank_check(rank);
    if (SA_UNLIKELY(!sa_lock_take(lock)))
        sa_lock_wait(lock);
    sa_lock_rank_acquired(rank);
    sa_preempt();
}

/* Takes the lock if it is free. False: it is held, perhaps by this thread. */
SA_INLINE bool sa_lock_try(struct sa_lock *lock, enum sa_lock_rank rank)
    SA_TRY_ACQUIRE(true, rank) SA_NO_THREAD_SAFETY_ANALYSIS
{
    if (!sa_lock_take(lock))
        return false;
    sa_lock_rank_check(rank);
    sa_lock_rank_acquired(rank);
    return true;
}

SA_INLINE void sa_lock_release(struct sa_lock *lock, enum sa_lock_rank rank)
    SA_RELEASE(rank) SA_NO_THREAD_SAFETY_ANALYSIS
{
    sa_lock_rank_released(rank);
    if (SA_UNLIKELY(sa_lock_give(lock) == 2))
        sa_lock_wake(lock);
    sa_preempt();
}

#endif
