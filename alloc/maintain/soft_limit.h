/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens beyond the soft limit (alloc/page_heap/account/limits.h): free memory goes back,
 * first that of the page heap, then what caches hold; if that is not enough the program is told,
 * once for each time that it passes the limit.
 */
#ifndef SA_MAINTAIN_SOFT_LIMIT_H
#define SA_MAINTAIN_SOFT_LIMIT_H

#include <stdbool.h>

/* Inside the gate, without locks. Brings the footprint back below the soft limit as far as that
 * goes. */
void sa_soft_limit_enforce(void);

/* What tells the program; called outside of the gate and without locks, never by two threads at
 * once nor within itself. NULL: nothing. Inside the gate. */
void sa_soft_limit_set_callback(void (*callback)(void *arg), void *arg);

/* In the child. */
void sa_soft_limit_after_fork(void);

#endif
