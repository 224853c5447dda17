/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred calls: a slow path requests them, and the next slow path that leaves the fork gate makes
 * them, as its last act. They may run code of the program, so they run outside of the gate and
 * without locks. errno may change. Start-up sets the handlers, before any request.
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

/* Makes the calls that are due. A slow path that is nested in another leaves them to that one. */
SA_INLINE void sa_deferred_call_run(void)
{
    if (SA_UNLIKELY(sa_load_relaxed(&sa_deferred_call_due)) && !sa_thread.gate_depth)
        sa_deferred_call_do();
}

#endif
