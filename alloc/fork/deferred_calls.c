/* SPDX-License-Identifier: Apache-2.0 */
/* The requests and handlers of deferred calls; see deferred_calls.h. */
#include "alloc/fork/deferred_calls.h"

#include "alloc/base/fatal.h"

#include <stddef.h>

typedef void sa_deferred_call_handler(void);

SA_START_DATA uint32_t sa_deferred_call_due;

/* Stored with release order by start-up, loaded with acquire order. */
static sa_deferred_call_handler *handlers[SA_DEFERRED_WORKS];

void sa_deferred_call_set_handler(enum sa_deferred_call_work work, void (*handler)(void))
{
    SA_DCHECK(work < SA_DEFERRED_WORKS && handler);
    sa_store_release(&handlers[work], handler);
}

void sa_deferred_call_request(enum sa_deferred_call_work work)
{
    SA_DCHECK(work < SA_DEFERRED_WORKS);
    __atomic_fetch_or(&sa_deferred_call_due, 1u << work, __ATOMIC_RELAXED);
}

void sa_deferred_call_do(void)
{
    uint32_t due = sa_xchg_acquire(&sa_deferred_call_due, 0);

    for (unsigned i = 0; i < SA_DEFERRED_WORKS; i++) {
        sa_deferred_call_handler *handler = sa_load_acquire(&handlers[i]);

        if (due >> i & 1 && handler)
            handler();
    }
}
