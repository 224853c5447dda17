/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library's own: the maintenance thread, the idle watch, the control thread, and
 * those that write files and ask for the topology. No state. */
#ifndef SA_API_CONTROL_OWN_THREAD_H
#define SA_API_CONTROL_OWN_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

struct sa_own_thread {
    void *(*body)(void *);
    size_t stack_bytes; /* 0, or too few for the thread-local memory: libc's default */
    bool detached;
    bool takes_sigsys; /* a filter of system calls may answer with it; all others are blocked */
};

/*
 * Creates a thread that handles no signals of the program. *mask: before the thread runs, it gets
 * the caller's mask. ret: as for pthread_create. Returns 0 or an errno. Allocates, as
 * pthread_create does.
 */
int sa_own_thread_create(const struct sa_own_thread *thread, sigset_t *mask, pthread_t *ret);

#endif
