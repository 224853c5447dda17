/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slab numbers for threads; see thread_slots.h. The lock (THREAD_SLOTS) guards the stack of free
 * numbers. The thread-local state is the phase of a thread's life:
 *
 *   NEW -> REGISTERING -> OWNER -> ENDED     (NEW -> WITHOUT when numbers have run out)
 *
 * The destructor of a pthread key tells of the end of a thread. The first thread that needs it
 * makes the key. libc's list of thread-local destructors would use no key, but takes the loader's
 * lock, and the thread that holds that lock may wait for this one. To set the key's value may
 * allocate: in the state REGISTERING that allocation uses no cache. Destructors that run after
 * ENDED allocate without a cache, too.
 */
#include "alloc/cpu_cache/thread_slots.h"

#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/lock.h"
#include "alloc/os/thread.h"

#include <pthread.h>
#include <stdint.h>

enum slot_state { SLOT_NEW, SLOT_REGISTERING, SLOT_OWNER, SLOT_WITHOUT, SLOT_ENDED };

static struct {
    struct sa_lock lock;
    /* Numbers from 1 to `created` have been handed out. */
    unsigned created SA_GUARDED_BY(SA_RANK_THREAD_SLOTS);
    unsigned free_count SA_GUARDED_BY(SA_RANK_THREAD_SLOTS);
    uint16_t free[SA_SLABS] SA_GUARDED_BY(SA_RANK_THREAD_SLOTS);
    pthread_key_t key; /* const once there is one */
    bool have_key SA_GUARDED_BY(SA_RANK_THREAD_SLOTS);
} slots;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("thread_slots", slots, created),
    SA_LAYOUT_STATE("thread_slots", slots, free_count),
};
SA_LAYOUT_STATIC_ADDRESS("thread_slots", slots);

static void slot_release(int number)
{
    sa_lock_acquire(&slots.lock, SA_RANK_THREAD_SLOTS);
    SA_DCHECK(number >= 1 && (unsigned)number <= slots.created && slots.free_count < slots.created);
    slots.free[slots.free_count++] = (uint16_t)number;
    sa_lock_release(&slots.lock, SA_RANK_THREAD_SLOTS);
}

static void slot_thread_ends(void *unused)
{
    int number = sa_thread.area.cpu_id;

    (void)unused;
    if (!sa_fork_gate_enter())
        return; /* a fork is in progress: the slab and its objects stay */
    sa_cpu_cache_drain(number);
    sa_thread.slot_state = SLOT_ENDED;
    sa_thread.area.cpu_id = 0;
    slot_release(number);
    sa_fork_gate_leave();
}

/* Makes the key, once. Not by pthread_once, which ends with a call of futex: the filter of a
 * program of one thread may forbid it. pthread_key_create takes no memory. */
static bool slot_make_key(void)
{
    bool made;

    sa_lock_acquire(&slots.lock, SA_RANK_THREAD_SLOTS);
    if (!slots.have_key)
        slots.have_key = pthread_key_create(&slots.key, slot_thread_ends) == 0;
    made = slots.have_key;
    sa_lock_release(&slots.lock, SA_RANK_THREAD_SLOTS);
    return made;
}

bool sa_thread_slots_acquire(void)
{
    int number = 0;

    if (sa_thread.slot_state != SLOT_NEW)
        return false;
    sa_thread.slot_state = SLOT_REGISTERING;
    if (!slot_make_key() || pthread_setspecific(slots.key, &slots) != 0) {
        sa_thread.slot_state = SLOT_WITHOUT;
        return false;
    }
    sa_lock_acquire(&slots.lock, SA_RANK_THREAD_SLOTS);
    if (slots.free_count)
        number = slots.free[--slots.free_count];
    else if (slots.created < SA_SLABS - 1)
        number = (int)sa_add_relaxed(&slots.created, 1) + 1;
    sa_lock_release(&slots.lock, SA_RANK_THREAD_SLOTS);
    SA_DCHECK(number >= 0 && number < SA_SLABS);
    if (number) /* a slab comes with its first use */
        sa_store_release(&sa_hot.slabs[number], &sa_slab_empty);
    sa_thread.slot_state = number ? SLOT_OWNER : SLOT_WITHOUT;
    sa_thread.area.cpu_id = number;
    return number != 0;
}

/* No analysis: a child of fork has one thread, and all its locks are free. */
SA_FORK void sa_thread_slots_after_fork(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    int own = sa_thread.area.cpu_id;
    unsigned count = 0;

    for (unsigned number = slots.created; number > 0; number--) {
        if ((int)number == own)
            continue;
        if (slots.free[count] != number)
            slots.free[count] = (uint16_t)number;
        count++;
    }
    if (slots.free_count != count)
        slots.free_count = count;
}

unsigned sa_thread_slots_in_use(void)
{
    unsigned n;

    sa_lock_acquire(&slots.lock, SA_RANK_THREAD_SLOTS);
    n = slots.created - slots.free_count;
    sa_lock_release(&slots.lock, SA_RANK_THREAD_SLOTS);
    return n;
}

unsigned sa_thread_slots_created(void)
{
    return sa_load_relaxed(&slots.created);
}
