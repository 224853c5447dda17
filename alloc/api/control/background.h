/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread: the options maintenance_thread, pressure and release_rate, and the
 * functions about the thread and the rate in include/salloc/salloc.h. Any thread may call those;
 * `state` in background.c orders them.
 */
#ifndef SA_API_CONTROL_BACKGROUND_H
#define SA_API_CONTROL_BACKGROUND_H

#include "alloc/api/options/options.h"

/* Takes the options over. Called once, by the constructor, after the options were read. */
void sa_background_read_options(void);

/* What the program has chosen: the option, or what the functions have put in its place. */
sa_option_thread sa_background_choice(void);

/* Sets the choice at run time, as the functions of salloc.h do for on and off. Returns 0, or -1
 * with errno. */
int sa_background_set_choice(sa_option_thread choice);

/* Called before a filter of system calls is installed: ends the idle watch, which the filter might
 * not allow to end later. Waits up to 0.1 s. Callable in children of vfork and of threaded
 * programs. */
void sa_background_leave(void);

/* Returns the number of threads of the process, the main thread among them, if that has ended
 * before its time; else 0. Reads a file. */
unsigned sa_background_threads_left(void);

/* Called in a child of fork, which has no such thread: requests one if the parent wanted one. */
void sa_background_after_fork(void);

#endif
