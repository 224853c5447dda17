/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the profiles that the options ask for, at exit and at a signal; see doc/tuning.md.
 *
 * The signal handler may interrupt any code, so it only wakes a thread, which exists if
 * profile_signal is set. The thread blocks all signals but this one. A program that blocks the
 * signal in all of its own threads, for sigwait or for another reason, thus has it delivered here.
 * A child of fork gets a thread of its own.
 *
 * One recording is stopped and the next one started within one passage of the fork gate, so that a
 * child of fork always has a running recording.
 *
 * The mutex `writing` guards `recording` after the constructor. `destination` does not change then,
 * except in a child of fork, which has one thread.
 */
#include "alloc/api/profile_output.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/api/replaced.h"
#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/os/destination.h"
#include "alloc/os/sys.h"
#include "sampling/export/write.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* The stack of the thread that writes. The functions that write a profile use less than 1/10 of
 * it. */
#define STACK_BYTES (512 * 1024)

/* Attempts to make a profile. One fails after up to 50 ms if another thread forks meanwhile. */
#define TRIES 20

static struct {
    uint32_t wanted; /* atomic: the number of signals received. The signal handler adds 1; the
                        thread waits for a change. */
    salloc_profile_token *recording; /* under `writing`: the running recording, or NULL */
    pthread_mutex_t writing; /* held while a profile is made and written. A mutex of libc: the
                                thread holds no lock of the allocator then */
    struct sa_destination destination; /* written by the constructor, and in a child of fork */
} output = {.writing = PTHREAD_MUTEX_INITIALIZER};

/* Whether the profile is made from a recording. */
static bool output_records(void)
{
    return sa_options.profile_type == SALLOC_PROFILE_ALLOCATIONS ||
           sa_options.profile_type == SALLOC_PROFILE_LIFETIMES;
}

/* Starts a recording of the type that the options ask for. NULL: it could not, or none is
 * needed. */
static salloc_profile_token *output_start(void)
{
    if (!output_records())
        return NULL;
    return sa_options.profile_type == SALLOC_PROFILE_ALLOCATIONS ? salloc_start_allocation_profile()
                                                                 : salloc_start_lifetime_profile();
}

/* Returns the profile of the running recording and starts the next one. NULL with errno: none. A
 * recording that cannot be stopped now goes on. */
static salloc_profile *output_exchange(void)
{
    salloc_profile *profile = NULL;
    int error = EAGAIN; /* no recording: after the last stop, the next start failed */

    if (!sa_fork_gate_enter()) {
        errno = EAGAIN;
        return NULL;
    }
    if (output.recording) {
        profile = salloc_profile_token_stop(output.recording);
        error = errno;
    }
    if (profile || error == EINVAL)
        output.recording = NULL;
    if (!output.recording)
        output.recording = output_start();
    sa_fork_gate_leave();
    errno = error;
    return profile;
}

static salloc_profile *output_profile(void)
{
    return output_records() ? output_exchange() : salloc_snapshot_profile(sa_options.profile_type);
}

/* Makes a profile and writes it. Called at exit, and by the thread. */
SA_RARE static void output_write(void)
{
    salloc_profile *profile = NULL;
    int error = EAGAIN;

    if (sa_replaced_serves_nobody())
        return;
    pthread_mutex_lock(&output.writing);
    for (int i = 0; i < TRIES && !profile && error == EAGAIN; i++) {
        profile = output_profile();
        error = profile ? 0 : errno;
    }
    if (profile)
        error = -sa_profile_write_to((const struct sa_profile *)profile, &output.destination);
    salloc_profile_free(profile);
    pthread_mutex_unlock(&output.writing);
    if (error && error != output.destination.told)
        sa_destination_complain("profile ", output.destination.pattern, error);
}

SA_RARE static void *output_thread(void *unused)
{
    uint32_t seen = 0;
    sigset_t own;

    sa_sys_name_thread("salloc-profile");
    sigemptyset(&own);
    sigaddset(&own, sa_options.profile_signal);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    for (;;) {
        uint32_t wanted = sa_load_acquire(&output.wanted);

        if (wanted == seen) {
            sa_sys_futex_wait(&output.wanted, seen, -1);
            continue;
        }
        seen = wanted; /* all signals that came during the last write lead to one profile */
        output_write();
    }
    return unused;
}

SA_RARE static void output_start_thread(void)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, output_thread, NULL) != 0)
        sa_warn("profile_signal: cannot create a thread");
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

SA_RARE static void output_signal(int number)
{
    int saved = errno;

    (void)number;
    sa_add_seq_cst(&output.wanted, 1);
    sa_sys_futex_wake(&output.wanted, 1);
    errno = saved;
}

/* Installs the signal handler, also if no profile is wanted: the default action of the signal would
 * end the program. */
static void output_listen(void)
{
    struct sigaction action = {.sa_handler = output_signal, .sa_flags = SA_RESTART | SA_ONSTACK};

    sigfillset(&action.sa_mask);
    if (sigaction(sa_options.profile_signal, &action, NULL) != 0)
        sa_warn("profile_signal: cannot handle signal %d", sa_options.profile_signal);
}

/* Whether the options ask for a profile with an ending and placeholders that are known. */
static bool output_wanted(void)
{
    return sa_options.profile.text[0] && sa_profile_check_path(sa_options.profile.text) == 0;
}

/* Prints what is wrong with the options, if anything. */
static void output_complain(void)
{
    if (output_wanted()) {
        if (output.destination.told)
            sa_destination_complain("profile ", output.destination.pattern,
                                    output.destination.told);
    } else if (sa_options.profile.text[0]) {
        sa_warn("SALLOC_CONF: profile:%s: unknown ending or placeholder; doc/profiles.md has them",
                sa_options.profile.text);
    } else if (sa_options.profile_signal) {
        sa_warn("SALLOC_CONF: profile_signal without profile: the signal is ignored");
    }
}

SA_RARE void sa_profile_output_register(void)
{
    if (output_wanted()) {
        sa_destination_keep(&output.destination, sa_options.profile.text);
        output.recording = output_start();
        atexit(output_write);
        if (sa_options.profile_signal)
            output_start_thread();
    }
    if (!sa_replaced_serves_nobody())
        output_complain();
    if (sa_options.profile_signal)
        output_listen();
}

SA_RARE void sa_profile_output_after_fork(bool threads)
{
    if (!output_wanted())
        return;
    sa_destination_after_fork(&output.destination);
    /* A thread of the parent may have held the mutex. */
    output.writing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (sa_options.profile_signal) {
        sa_store_relaxed(&output.wanted, 0);
        if (threads)
            output_start_thread();
    }
}
