/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the footprint below the soft limit; see soft_limit.h. LIMIT lets one thread at a time
 * release. A thread that finds LIMIT held leaves `soft_due` set, and the holder checks that word
 * after it has released the lock.
 *
 * More than 1/WAIT_FRACTION beyond the limit, threads wait for the lock. Otherwise they would go on
 * to take memory for milliseconds if the thread that releases has no processor.
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

/* Empty caches slow all threads down. While emptying them does not help, it is repeated only after
 * DRAIN_NS, or after the footprint has grown by 1/DRAIN_FRACTION of the limit. */
#define DRAIN_NS       100000000ull
#define DRAIN_FRACTION 64

/* The part of the limit beyond which threads wait for the one that releases. */
#define WAIT_FRACTION 64

/* The most times that one thread releases for others before it goes on with its own work. */
#define ROUNDS_MAX 4

/* The most bytes released in one step: a fork that waits for the gate waits for one step. */
#define SLICE_BYTES (64ul << 20)

static SA_START_DATA struct {
    struct sa_lock lock; /* LIMIT; guards what follows, except the atomic words */
    uint64_t drained_ns SA_GUARDED_BY(SA_RANK_LIMIT);  /* when the caches were last emptied */
    size_t drained_bytes SA_GUARDED_BY(SA_RANK_LIMIT); /* the footprint after that */
    void (*callback)(void *arg) SA_GUARDED_BY(SA_RANK_LIMIT);
    void *arg SA_GUARDED_BY(SA_RANK_LIMIT);
    const void *caller; /* atomic: address of sa_thread of the thread that runs the callback, or
                           NULL; taken by compare-and-swap, released by that thread */
    bool again;         /* atomic: a thread wanted to run the callback meanwhile */
} soft;

/* Releases free pages of both heaps, while the footprint exceeds the limit and any are left. */
static void release_pages(void)
{
    struct sa_page_heap *heaps[] = {&sa_page_heap_ordinary, &sa_page_heap_sampled};

    for (unsigned i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++) {
        size_t over, given = 1;

        while (given && (over = sa_limits_surplus(SA_LIMIT_SOFT)) && !sa_fork_gate_is_closed()) {
            given = sa_page_heap_release(heaps[i], sa_min(over, SLICE_BYTES));
            sa_limits_released(SA_LIMIT_SOFT, given);
        }
    }
}

/* Releases pages that hold free objects only, on spans in use. */
static void empty_objects(void)
{
    size_t over, given = 1;

    while (given && (over = sa_limits_surplus(SA_LIMIT_SOFT)) && !sa_fork_gate_is_closed()) {
        given = sa_central_empty(sa_min(over, SLICE_BYTES));
        sa_limits_released(SA_LIMIT_SOFT, given);
    }
}

/* Whether the caches may be emptied again. */
static bool drain_is_due(uint64_t now) SA_REQUIRES(SA_RANK_LIMIT)
{
    size_t used = sa_footprint_bytes(), part = sa_limits_get(SA_LIMIT_SOFT) / DRAIN_FRACTION;

    return now - soft.drained_ns >= DRAIN_NS || used < soft.drained_bytes ||
           used - soft.drained_bytes >= part;
}

/* Releases memory until the footprint is below the limit: free pages, then what caches hold. If
 * that is not enough, requests the callback, once for each crossing. */
static void enforce(void) SA_REQUIRES(SA_RANK_LIMIT)
{
    uint64_t now = sa_clock_coarse_ns();

    sa_group_limit_look(now);
    if (!sa_limits_surplus(SA_LIMIT_SOFT))
        return;
    sa_add_relaxed(&sa_limits.hits[SA_LIMIT_SOFT], 1);
    release_pages();
    if (sa_limits_surplus(SA_LIMIT_SOFT)) {
        if (!drain_is_due(now))
            return;
        sa_cpu_cache_drain(-1);
        sa_transfer_flush();
        release_pages();
        empty_objects();
        soft.drained_ns = now;
        soft.drained_bytes = sa_footprint_bytes();
    }
    if (!sa_limits_surplus(SA_LIMIT_SOFT)) {
        sa_add_relaxed(&sa_limits.shrinks[SA_LIMIT_SOFT], 1);
    } else if (!sa_load_relaxed(&sa_limits.soft_passed)) {
        sa_store_relaxed(&sa_limits.soft_passed, true);
        if (soft.callback)
            sa_deferred_call_request(SA_DEFERRED_SOFT_LIMIT);
    }
}

/*
 * Takes LIMIT. False: another thread releases, and this one need not wait. A signal handler never
 * waits, because it may have interrupted the thread that holds the lock. No analysis: it does not
 * follow the result of a try through a return.
 */
static bool enter(void) SA_TRY_ACQUIRE(true, SA_RANK_LIMIT) SA_NO_THREAD_SAFETY_ANALYSIS
{
    if (sa_lock_try(&soft.lock, SA_RANK_LIMIT))
        return true;
    if (sa_thread.gate_depth != 1 ||
        sa_limits_surplus(SA_LIMIT_SOFT) < sa_limits_get(SA_LIMIT_SOFT) / WAIT_FRACTION)
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

/* Runs the callback; the handler of SA_DEFERRED_SOFT_LIMIT, outside the fork gate. If the callback
 * makes the next call due, a later slow path makes it. */
static void tell(void) SA_OUTSIDE_GATE
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
    /* The new callback is called if usage exceeds the limit now. */
    sa_store_relaxed(&sa_limits.soft_passed, false);
    sa_lock_release(&soft.lock, SA_RANK_LIMIT);
    sa_deferred_call_set_handler(SA_DEFERRED_SOFT_LIMIT, tell);
}

SA_FORK void sa_soft_limit_after_fork(void)
{
    if (sa_load_relaxed(&soft.caller) != (const void *)&sa_thread)
        sa_store_changed(&soft.caller, NULL);
}
