/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the library's threads; see own_thread.h. */
#include "alloc/api/control/own_thread.h"

#include "alloc/base/syscall.h"
#include "alloc/os/rseq.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

/*
 * A thread of a real-time program passes its priority and its CPU on to those that it makes. The
 * library's work has no such claim: it gets the ordinary policy, and the CPUs that the process had
 * at the start. libc applies both before the thread runs, as it might never run on a CPU that its
 * creator does not leave. Nothing is set where the creator has nothing else.
 */
static void set_ordinary(pthread_attr_t *attr)
{
    const struct sched_param param = {.sched_priority = 0};
    const struct sa_sys_cpus none = {{0}};
    struct sa_sys_cpus now = none;
    cpu_set_t process;

    if (sa_syscall(SYS_sched_getscheduler, 0) > 0) {
        pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
        pthread_attr_setschedpolicy(attr, SCHED_OTHER);
        pthread_attr_setschedparam(attr, &param);
    }
    CPU_ZERO(&process);
    memcpy(&process, &sa_rseq_process_cpus, sizeof(sa_rseq_process_cpus));
    if (memcmp(&sa_rseq_process_cpus, &none, sizeof(none)) != 0 &&
        sa_sys_affinity(&now, sizeof(now)) > 0 &&
        memcmp(&now, &sa_rseq_process_cpus, sizeof(now)) != 0)
        pthread_attr_setaffinity_np(attr, sizeof(process), &process);
}

/* stack_bytes: 0: libc's default. ordinary: not as the creator; the kernel may refuse that. */
static int create_with(const struct sa_own_thread *thread, size_t stack_bytes, bool ordinary,
                       pthread_t *ret)
{
    pthread_attr_t attr;
    int error;

    pthread_attr_init(&attr);
    if (stack_bytes)
        pthread_attr_setstacksize(&attr, stack_bytes);
    if (ordinary)
        set_ordinary(&attr);
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
    error = create_with(thread, thread->stack_bytes, true, ret);
    if (error == EPERM || error == EINVAL)
        error = create_with(thread, thread->stack_bytes, false, ret);
    if (error == EINVAL)
        error = create_with(thread, 0, false, ret);
    pthread_sigmask(SIG_SETMASK, mask, NULL);
    return error;
}
