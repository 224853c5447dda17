/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acts on the soft limit (alloc/page_heap/account/limits.h). Beyond it, free memory is released:
 * first the page heap's, then what caches hold. If that is not enough, the program's callback is
 * called, once for each crossing of the limit. Any thread; the lock LIMIT orders the work.
 */
#ifndef SA_MAINTAIN_SOFT_LIMIT_H
#define SA_MAINTAIN_SOFT_LIMIT_H

#include "alloc/base/thread_safety.h"

#include <stdbool.h>

/*
 * Reduces the footprint below the soft limit, as far as possible. Inside the fork gate, without a
 * lock. If another thread is doing so, returns at once, or waits if usage exceeds the limit by
 * 1/64.
 */
void sa_soft_limit_enforce(void) SA_INSIDE_GATE;

/* Sets the callback; NULL: none. It is called outside the fork gate, without locks, by one thread
 * at a time, and never from within itself. Called inside the fork gate. */
void sa_soft_limit_set_callback(void (*callback)(void *arg), void *arg) SA_INSIDE_GATE;

/* Called in a child of fork: forgets a callback that was running on another thread. */
void sa_soft_limit_after_fork(void);

#endif
