/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The soft limit; see soft_limit.h. One thread at a time releases, under LIMIT, which is only
 * tried: whoever finds it held leaves `soft_due` set, and the holder looks again when it has let
 * go. Far beyond the limit it is waited for: if the one that releases does not get a processor, the
 * others would go on to take memory for milliseconds.
 */
#include "alloc/maintain/soft_limit.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/maintain/group_limit.h"
#include "alloc/middle/central_empty.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/clock.h"
#include "alloc/os/lock.h"
#include "alloc/os/thread.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/page_heap.h"

/*
 * Emptying caches costs everybody. While it does not help, it is tried again when this time has
 * gone by, or when the footprint has grown by this part of the limit.
 */
#define DRAIN_NS   100000000ull
#define DRAIN_PART 64

/* Beyond the limit by more than this part of it, threads wait for the one that releases. */
#define WAIT_PART 64

/* How often one thread does the others' work, which do not wait for it, before it goes on with its
 * own. */
#define ROUNDS_MAX 4

/* One slice of a release: a fork need not wait for all of it. */
#define SLICE_BYTES (64ul << 20)

static struct {
    struct sa_lock lock;                               /* LIMIT */
    uint64_t drained_ns SA_GUARDED_BY(SA_RANK_LIMIT);  /* when caches were emptied last */
    size_t drained_bytes SA_GUARDED_BY(SA_RANK_LIMIT); /* the footprint after that */
    void (*callback)(void *arg) SA_GUARDED_BY(SA_RANK_LIMIT);
    void *arg SA_GUARDED_BY(SA_RANK_LIMIT);
    const void
        *caller; /* atomic: the thread that is telling the program (its sa_thread), or NULL */
    bool again;  /* atomic: meanwhile there was reason to tell it again */
} soft;

/* Free pages of both heaps, as long as there are any and it is needed. */
static void release_pages(void)
{
    struct sa_page_heap *heaps[] = {&sa_page_heap_ordinary, &sa_page_heap_sampled};

    for (unsigned i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++) {
        size_t over, given = 1;

        while (given && (over = sa_limits_excess(SA_LIMIT_SOFT)) && !sa_fork_gate_is_closed()) {
            given = sa_page_heap_release(heaps[i], sa_min(over, SLICE_BYTES));
            sa_limits_released(SA_LIMIT_SOFT, given);
        }
    }
}

/* Pages of free objects, on spans that are in use. */
static void empty_objects(void)
{
    size_t over, given = 1;

    while (given && (over = sa_limits_excess(SA_LIMIT_SOFT)) && !sa_fork_gate_is_closed()) {
        given = sa_central_empty(sa_min(over, SLICE_BYTES));
        sa_limits_released(SA_LIMIT_SOFT, given);
    }
}

static bool drain_is_due(uint64_t now) SA_REQUIRES(SA_RANK_LIMIT)
{
    size_t used = sa_footprint_bytes(), part = sa_limits_get(SA_LIMIT_SOFT) / DRAIN_PART;

    return now - soft.drained_ns >= DRAIN_NS || used < soft.drained_bytes ||
           used - soft.drained_bytes >= part;
}

static void enforce(void) SA_REQUIRES(SA_RANK_LIMIT)
{
    uint64_t now = sa_clock_coarse_ns();

    sa_group_limit_look(now);
    if (!sa_limits_excess(SA_LIMIT_SOFT))
        return;
    sa_add_relaxed(&sa_limits.hits[SA_LIMIT_SOFT], 1);
    release_pages();
    if (sa_limits_excess(SA_LIMIT_SOFT)) {
        if (!drain_is_due(now))
            return;
        sa_cpu_cache_drain(-1);
        sa_transfer_flush();
        release_pages();
        empty_objects();
        soft.drained_ns = now;
        soft.drained_bytes = sa_footprint_bytes();
    }
    if (!sa_limits_excess(SA_LIMIT_SOFT)) {
        sa_add_relaxed(&sa_limits.shrinks[SA_LIMIT_SOFT], 1);
    } else if (!sa_load_relaxed(&sa_limits.soft_passed)) {
        sa_store_relaxed(&sa_limits.soft_passed, true);
        if (soft.callback)
            sa_deferred_call_request(SA_DEFERRED_SOFT_LIMIT);
    }
}

/* False: another thread is at it. A signal handler, which may have interrupted that one's, never
 * waits. No analysis inside: it does not follow what a try returns to the caller. */
static bool enter(void) SA_TRY_ACQUIRE(true, SA_RANK_LIMIT) SA_NO_THREAD_SAFETY_ANALYSIS
{
    if (sa_lock_try(&soft.lock, SA_RANK_LIMIT))
        return true;
    if (sa_thread.gate_depth != 1 ||
        sa_limits_excess(SA_LIMIT_SOFT) < sa_limits_get(SA_LIMIT_SOFT) / WAIT_PART)
        return false;
    sa_lock_acquire(&soft.lock, SA_RANK_LIMIT);
    return true;
}

void sa_soft_limit_enforce(void)
{
    int rounds = ROUNDS_MAX;

    SA_DCHECK(sa_thread.gate_depth);
    do {
        if (!enter())
            return;
        sa_store_relaxed(&sa_limits.soft_due, false);
        enforce();
        sa_lock_release(&soft.lock, SA_RANK_LIMIT);
    } while (sa_load_relaxed(&sa_limits.soft_due) && --rounds > 0 && !sa_fork_gate_is_closed());
}

/* Outside of the gate. What the callback does may make the next call due: that is the next slow
 * path's. */
static void tell(void)
{
    const void *nobody = NULL;
    void (*callback)(void *arg);
    void *arg;

    SA_DCHECK(!sa_thread.gate_depth);
    if (!sa_cas_acquire(&soft.caller, &nobody, (const void *)&sa_thread)) {
        sa_store_release(&soft.again, true);
        return;
    }
    if (sa_fork_gate_enter()) {
        sa_lock_acquire(&soft.lock, SA_RANK_LIMIT);
        callback = soft.callback;
        arg = soft.arg;
        sa_lock_release(&soft.lock, SA_RANK_LIMIT);
        sa_fork_gate_leave();
        if (callback) {
            sa_add_relaxed(&sa_limits.soft_calls, 1);
            callback(arg);
        }
    } else {
        sa_deferred_call_request(SA_DEFERRED_SOFT_LIMIT);
    }
    sa_store_release(&soft.caller, NULL);
    if (SA_UNLIKELY(sa_xchg_acquire(&soft.again, false)))
        sa_deferred_call_request(SA_DEFERRED_SOFT_LIMIT);
}

void sa_soft_limit_set_callback(void (*callback)(void *arg), void *arg)
{
    sa_lock_acquire(&soft.lock, SA_RANK_LIMIT);
    soft.callback = callback;
    soft.arg = arg;
    sa_store_relaxed(&sa_limits.soft_passed, false); /* who was not told before is told now */
    sa_lock_release(&soft.lock, SA_RANK_LIMIT);
    sa_deferred_call_set_handler(SA_DEFERRED_SOFT_LIMIT, tell);
}

void sa_soft_limit_after_fork(void)
{
    if (sa_load_relaxed(&soft.caller) != (const void *)&sa_thread)
        sa_store_relaxed(&soft.caller, NULL);
}
