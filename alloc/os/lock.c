/* SPDX-License-Identifier: Apache-2.0 */
/* The slow paths of a futex lock, and the rank checker of debug builds; see lock.h. The word of a
 * lock is the only shared state; held_ranks belongs to its thread. */
#include "alloc/os/lock.h"

#include "alloc/base/fatal.h"
#include "alloc/os/cpu_relax.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"

#define LOCK_SPINS 100
#define YIELD_NS   20000 /* ns; about the time that a thread takes to wake up */

/* Waits for the lock and takes it. */
SA_RARE void sa_lock_wait(struct sa_lock *lock)
{
    for (int i = 0; i < LOCK_SPINS; i++) {
        uint32_t free_word = 0;

        if (sa_load_relaxed(&lock->word) == 0 && sa_cas_acquire(&lock->word, &free_word, 1))
            return;
        sa_cpu_relax();
    }
    /* From here on the word is 2 while this thread waits for the lock or holds it. So its release
     * may wake a thread although none waits, once. */
    while (sa_xchg_acquire(&lock->word, 2) != 0)
        sa_sys_futex_wait(&lock->word, 2, -1);
}

SA_RARE void sa_lock_wake(struct sa_lock *lock)
{
    sa_sys_futex_wake(&lock->word, 1);
}

/* The analysis cannot know: an exchange releases the lock. */
SA_RARE void sa_lock_yield(struct sa_lock *lock,
                           enum sa_lock_rank rank) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint32_t nothing = 0;

    sa_lock_rank_released(rank);
    if (SA_UNLIKELY(sa_xchg_release(&lock->word, 0) == 2)) {
        sa_lock_wake(lock);
        sa_sys_futex_wait(&nothing, 0, YIELD_NS); /* sleeps for YIELD_NS: no thread wakes it */
    }
    sa_lock_acquire(lock, rank);
}

#ifdef SA_DEBUG
static const char *const lock_rank_names[SA_RANKS] = {
#define SA_LOCK_RANK(name, what) #name,
#include "alloc/os/lock_ranks.def"
#undef SA_LOCK_RANK
};

void sa_lock_rank_check(enum sa_lock_rank rank)
{
    uint32_t held = sa_thread.held_ranks;

    if (held >> rank)
        sa_fatal("lock order", (void *)(uintptr_t)held, "holds ranks in this mask and takes %s",
                 lock_rank_names[rank]);
}

void sa_lock_rank_acquired(enum sa_lock_rank rank)
{
    sa_thread.held_ranks |= 1u << rank;
}

void sa_lock_rank_released(enum sa_lock_rank rank)
{
    SA_CHECK(sa_thread.held_ranks & 1u << rank);
    sa_thread.held_ranks &= ~(1u << rank);
}

/* The analysis cannot know: the mask says what is held. */
void sa_lock_rank_assert(enum sa_lock_rank rank, const char *file,
                         int line) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint32_t held = sa_thread.held_ranks;

    if (!(held >> rank & 1))
        sa_fatal("lock not held", (void *)(uintptr_t)held,
                 "holds ranks in this mask, not %s, at %s:%d", lock_rank_names[rank], file, line);
}
#endif
