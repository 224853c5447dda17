/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread: the options maintenance_thread, pressure and release_rate, and the
 * functions about the thread and the rate in include/salloc/salloc.h. Any thread may call those;
 * `state` in background.c orders them.
 */
#ifndef SA_API_BACKGROUND_H
#define SA_API_BACKGROUND_H

#include <stdbool.h>

/* Takes the options over. Called once, by the constructor, after the options were read. */
void sa_background_read_options(void);

/* Whether a maintenance thread runs or will be started. */
bool sa_background_is_wanted(void);

/* Called in a child of fork, which has no such thread: requests one if the parent wanted one. */
void sa_background_after_fork(void);

#endif
