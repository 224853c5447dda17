/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the library's threads; see own_thread.h. */
#include "alloc/api/own_thread.h"

#include <errno.h>

/* stack_bytes: 0: libc's default. */
static int create_with(const struct sa_own_thread *thread, size_t stack_bytes, pthread_t *ret)
{
    pthread_attr_t attr;
    int error;

    pthread_attr_init(&attr);
    if (stack_bytes)
        pthread_attr_setstacksize(&attr, stack_bytes);
    if (thread->detached)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    error = pthread_create(ret, &attr, thread->body, NULL);
    pthread_attr_destroy(&attr);
    return error;
}

int sa_own_thread_create(const struct sa_own_thread *thread, sigset_t *mask, pthread_t *ret)
{
    sigset_t blocked;
    int error;

    sigfillset(&blocked);
    if (thread->takes_sigsys)
        sigdelset(&blocked, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &blocked, mask);
    error = create_with(thread, thread->stack_bytes, ret);
    if (error == EINVAL)
        error = create_with(thread, 0, ret);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    return error;
}
