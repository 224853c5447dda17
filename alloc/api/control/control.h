/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket: the option control. Processes of the same user, and root, set and read
 * options and record events over it, while the program runs. doc/control.md describes the protocol.
 */
#ifndef SA_API_CONTROL_CONTROL_H
#define SA_API_CONTROL_CONTROL_H

#include <stdbool.h>

/* Starts the thread of the socket, if the option asks for it. Called by the constructor. */
void sa_control_start(void);

/* Called before a filter of system calls is installed: ends the thread, whose calls the filter
 * might not allow. Waits up to 0.1 s. Callable in any child, where it does nothing to the parent.
 */
void sa_control_leave(void);

/* Called in a child of fork: closes what it has inherited, and (threads) starts a thread of its
 * own. Without: the child was not announced; called inside the fork gate. */
void sa_control_after_fork(bool threads);

#endif
