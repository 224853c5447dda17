/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred calls of functions that may run code of the program, or start a thread. A slow path
 * requests them. The next slow path that leaves the fork gate makes them as its last act, outside
 * of the gate and without locks. errno may change.
 *
 * Start-up sets the handlers before any request; a request without a handler is dropped. Requests
 * are bits of one word: a second request before the call has no effect. No lock.
 */
#ifndef SA_FORK_DEFERRED_CALLS_H
#define SA_FORK_DEFERRED_CALLS_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/thread_safety.h"
#include "alloc/os/thread.h"

#include <stdint.h>

enum sa_deferred_call_work {
    SA_DEFERRED_SOFT_LIMIT, /* tells the program that the soft limit is exceeded */
    SA_DEFERRED_THREAD,     /* starts the maintenance thread */
    SA_DEFERRED_TRACE,      /* stops the copy of the parent's trace in a child */
    SA_DEFERRED_WORKS,
};

/* Bit per kind of work that is requested; atomic: any thread sets bits (relaxed), and the thread
 * that makes the calls takes all of them (acquire). */
extern uint32_t sa_deferred_call_due;

/* Sets the function that does a kind of work. */
void sa_deferred_call_set_handler(enum sa_deferred_call_work work, void (*handler)(void));
/* Requests a call. Called inside or outside of the gate, with or without locks;
 * async-signal-safe. */
void sa_deferred_call_request(enum sa_deferred_call_work work);
/* Makes the requested calls. Called outside of the gate, without locks. */
void sa_deferred_call_do(void) SA_OUTSIDE_GATE;

/* Makes the requested calls, if there are any. A slow path that is nested in another one leaves
 * them to the outer one. */
SA_INLINE void sa_deferred_call_run(void) SA_OUTSIDE_GATE
{
    if (SA_UNLIKELY(sa_load_relaxed(&sa_deferred_call_due)) && !sa_thread.gate_depth)
        sa_deferred_call_do();
}

#endif
