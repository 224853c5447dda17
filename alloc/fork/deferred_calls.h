/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that a slow path finds to be due but that may run code which is not the allocator's, so that
 * it must be outside of the gate and of all locks: it is done by the slow path that leaves the gate
 * next, as its last act. errno may change. Handlers are set at start, before their work can be
 * requested.
 */
#ifndef SA_FORK_DEFERRED_CALLS_H
#define SA_FORK_DEFERRED_CALLS_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/os/thread.h"

#include <stdint.h>

enum sa_deferred_call_work {
    SA_DEFERRED_SOFT_LIMIT, /* to tell the program that the soft limit is passed */
    SA_DEFERRED_THREAD,     /* to start the maintenance thread */
    SA_DEFERRED_WORKS,
};

extern uint32_t sa_deferred_call_due; /* atomic, relaxed: a bit for each kind of work */

void sa_deferred_call_set_handler(enum sa_deferred_call_work work, void (*handler)(void));
void sa_deferred_call_request(enum sa_deferred_call_work work);
void sa_deferred_call_do(void);

/* Outside of the gate: does nothing for a slow path within another. */
SA_INLINE void sa_deferred_call_run(void)
{
    if (SA_UNLIKELY(sa_load_relaxed(&sa_deferred_call_due)) && !sa_thread.gate_depth)
        sa_deferred_call_do();
}

#endif
