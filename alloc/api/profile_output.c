/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing profiles at exit and at a signal; see doc/tuning.md.
 *
 * A signal handler may interrupt anything, so it only wakes a thread, which exists if
 * profile_signal is set. The thread blocks all other signals and waits for nothing but that word:
 * where the program blocks this one in all of its threads, to wait for it or for no reason, it
 * comes here. A child of fork gets a thread of its own.
 *
 * A recording is followed by the next inside the gate, so that a child of fork has one that runs.
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

/* Of the thread that writes: what a profile's writers keep on the stack is below a tenth of it. */
#define STACK_BYTES (512 * 1024)

/* To make a profile while another thread forks, of up to 50 ms. */
#define TRIES 20

static struct {
    uint32_t wanted; /* atomic: signals received */
    salloc_profile_token *recording;
    pthread_mutex_t
        writing; /* one file at a time; not the allocator's: nothing of it is held meanwhile */
    struct sa_destination destination; /* written by the constructor */
} output = {.writing = PTHREAD_MUTEX_INITIALIZER};

static bool output_records(void)
{
    return sa_options.profile_type == SALLOC_PROFILE_ALLOCATIONS ||
           sa_options.profile_type == SALLOC_PROFILE_LIFETIMES;
}

static salloc_profile_token *output_start(void)
{
    if (!output_records())
        return NULL;
    return sa_options.profile_type == SALLOC_PROFILE_ALLOCATIONS ? salloc_start_allocation_profile()
                                                                 : salloc_start_lifetime_profile();
}

/* What was recorded until now, and starts the next recording; one that cannot be stopped now goes
 * on. */
static salloc_profile *output_exchange(void)
{
    salloc_profile *profile = NULL;
    int error = EAGAIN; /* the last one was stopped, but the next could not be started then */

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
        seen = wanted; /* several signals that came meanwhile are one */
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

/* Handles the signal, without a profile too: its default would end the program. */
static void output_listen(void)
{
    struct sigaction action = {.sa_handler = output_signal, .sa_flags = SA_RESTART | SA_ONSTACK};

    sigfillset(&action.sa_mask);
    if (sigaction(sa_options.profile_signal, &action, NULL) != 0)
        sa_warn("profile_signal: cannot handle signal %d", sa_options.profile_signal);
}

/* Whether there is a profile to write. */
static bool output_wanted(void)
{
    return sa_options.profile.text[0] && sa_profile_check_path(sa_options.profile.text) == 0;
}

/* What is wrong with the options; nothing if they are in order. */
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
    /* The parent's thread may have been writing. */
    output.writing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    if (sa_options.profile_signal) {
        sa_store_relaxed(&output.wanted, 0);
        if (threads)
            output_start_thread();
    }
}
