/* SPDX-License-Identifier: Apache-2.0 */
/* The option exit_signals: the last files of a process that a signal ends. See exit_signals.c. */
#ifndef SA_API_CONTROL_EXIT_SIGNALS_H
#define SA_API_CONTROL_EXIT_SIGNALS_H

#include <stdint.h>

/* Handles the signals whose action is the default. Called once, by the constructor. bell: a futex
 * word that grows when the thread that writes is to look. */
void sa_exit_signals_register(uint32_t *bell);

/* There is a thread that writes; 0 in its place: there is none. */
void sa_exit_signals_serve(int pid);

/* Called in a child of fork: no signal has come yet, and there is no thread. */
void sa_exit_signals_after_fork(void);

/* Returns the signal that ends the process, or 0. Called by the thread that writes. */
int sa_exit_signals_pending(void);

/* All files are written, and the process may end. Called by the thread that writes. */
void sa_exit_signals_done(void);

#endif
