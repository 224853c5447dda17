/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread; see background.h. It does the work that slow paths do by elapsed time, so
 * that memory also goes back while the program calls neither malloc nor free. It handles no signal
 * and calls no code of the program.
 *
 * Start. salloc_start_maintenance_thread starts the thread at once. An option only requests it: the
 * next malloc that takes the slow path starts the thread, after its own work and outside the fork
 * gate. A process that does little thus has no thread. A child of fork starts its own in the same
 * way.
 *
 * By default (SA_THREAD_AUTO) the thread is an idle watch: maintenance requests it when the program
 * might become idle and leave much free memory behind. Once it has released that, it ends. It also
 * ends when only it keeps the process from its end.
 *
 * Invariant: `state` names the thread that may use the rest. The thread that changes it from NONE
 * to STARTING creates the maintenance thread; the one that changes it from RUNNING to STOPPING
 * joins it. An idle watch that ends by itself changes it from RUNNING to NONE.
 */
#include "alloc/api/background.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/single_threaded.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/vfork.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/os/filter.h"
#include "alloc/os/pressure.h"
#include "alloc/os/sys.h"
#include "include/salloc/salloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

/* More than the thread needs. The static thread-local memory of the program and of its libraries
 * lies in it as well. */
#define STACK_BYTES (256 * 1024)

/* The longest wait for pressure. sa_maintenance_wake does not end that wait. */
#define PRESSURE_MS 2000

/* The time between two looks of an idle watch that may not end. */
#define FILTERED_MS 1000

enum { NONE, STARTING, RUNNING, STOPPING };

static struct {
    uint32_t state; /* atomic: compare-and-swap with acquire, stores with release (relaxed in a
                       child of fork) */
    sa_option_thread choice; /* atomic, relaxed; a child of fork keeps the value */
    bool watch; /* atomic, relaxed; written by the thread that has set STARTING: it is an idle watch
                 */
    pthread_t thread; /* written by the thread that has set STARTING, read by the one that has set
                         STOPPING */
    struct sa_pressure pressure; /* belongs to the maintenance thread */
} background;

/* Whether all other threads have ended. libc ends the process with the last thread: if the main
 * thread has ended before its time, this one must not stay. */
SA_RARE static bool background_is_alone(void)
{
    char text[512], *at;

    if (sa_filtered() || sa_sys_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
        return false;
    at = strrchr(text, ')'); /* behind the name: the state of the main thread is the third field */
    if (!at || at[1] != ' ' || at[2] != 'Z')
        return false;
    for (int field = 3; at && field < 20; field++) /* and the number of threads is the 20th */
        at = strchr(at + (field == 3 ? 2 : 1), ' ');
    return at && at[1] == '2' && at[2] == ' ';
}

/* The body of the thread as an idle watch. */
SA_RARE static void *background_watch(void *unused)
{
    uint32_t running = RUNNING;

    sa_sys_name_thread("salloc-idle");
    for (;;) {
        uint32_t wakes = sa_maintenance_wakes();
        unsigned ms;

        if (sa_load_acquire(&background.state) == STOPPING)
            return unused;
        ms = background_is_alone() ? 0 : sa_maintenance_watch();
        if (!ms && !sa_filtered()) /* a filter may forbid the end of a thread */
            break;
        sa_maintenance_sleep(wakes, ms ? ms : FILTERED_MS);
    }
    while (!sa_cas_release(&background.state, &running, NONE)) {
        if (running == STOPPING)
            return unused;
        sa_sys_futex_wait(&background.state, STARTING, 1000000); /* for its creator */
        running = RUNNING;
    }
    pthread_detach(pthread_self());
    sa_maintenance_want_watch(sa_load_relaxed(&background.choice) == SA_THREAD_AUTO);
    return unused;
}

/* The body of the thread. Ends when `state` becomes STOPPING. */
SA_RARE static void *background_thread(void *unused)
{
    bool watch = sa_options.pressure;

    sa_sys_name_thread("salloc-maintain");
    if (watch)
        sa_pressure_begin(&background.pressure, "");
    for (;;) {
        uint32_t wakes = sa_maintenance_wakes();
        unsigned ms;

        if (sa_load_acquire(&background.state) == STOPPING)
            break;
        ms = sa_maintenance_background();
        if (!watch)
            sa_maintenance_sleep(wakes, ms);
        else if (sa_pressure_wait(&background.pressure, (unsigned)sa_min(ms, PRESSURE_MS)))
            sa_maintenance_relieve();
    }
    sa_pressure_end(&background.pressure);
    return unused;
}

/* Creates the thread with all signals blocked. Returns 0 or an errno. */
SA_RARE static int background_create(bool watch)
{
    void *(*body)(void *) = watch ? background_watch : background_thread;
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    error = pthread_create(&background.thread, &attr, body, NULL);
    if (error == EINVAL) /* STACK_BYTES are too few for the thread-local memory */
        error = pthread_create(&background.thread, NULL, body, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Starts the thread unless it runs. Returns 0, or the errno that says why no thread runs. */
static int background_start(bool watch)
{
    uint32_t none = NONE;
    int error;

    if (!sa_cas_acquire(&background.state, &none, STARTING))
        return none == STOPPING ? EBUSY : 0;
    sa_store_relaxed(&background.watch, watch);
    error = background_create(watch);
    sa_store_release(&background.state, error ? NONE : RUNNING);
    return error;
}

/* Whether the kernel is certain to allow one more thread. A filter may end the process instead, and
 * one from before the program was executed shows nowhere else. */
SA_RARE static bool background_may_watch(void)
{
    return !sa_filtered() && (!sa_single_threaded() || !sa_sys_has_filter());
}

/* The handler of SA_DEFERRED_THREAD: runs after a slow path, outside the gate. */
SA_RARE static void background_start_lazily(void)
{
    sa_option_thread choice = sa_load_relaxed(&background.choice);

    if (sa_vfork_is_child()) { /* the thread would belong to the child's process */
        sa_maintenance_want_watch(choice == SA_THREAD_AUTO);
        sa_maintenance_want_thread(choice == SA_THREAD_ON, false);
    } else if (choice == SA_THREAD_ON) {
        if (background_start(false) != 0)
            sa_warn("maintenance_thread: cannot create a thread");
    } else if (choice == SA_THREAD_AUTO && background_may_watch()) {
        background_start(true);
    }
}

/* Sets whether a thread is wanted. The next maintenance pass then requests its start. */
static void background_choose(sa_option_thread choice)
{
    sa_store_relaxed(&background.choice, choice);
    sa_maintenance_want_thread(choice == SA_THREAD_ON, true);
    sa_maintenance_want_watch(choice == SA_THREAD_AUTO);
}

SA_RARE sa_option_thread sa_background_choice(void)
{
    return sa_load_relaxed(&background.choice);
}

void sa_background_init(void)
{
    sa_deferred_call_set_handler(SA_DEFERRED_THREAD, background_start_lazily);
}

SA_RARE void sa_background_read_options(void)
{
    sa_maintenance_set_release_rate(sa_options.release_rate);
    background_choose(sa_options.pressure ? SA_THREAD_ON : sa_options.maintenance_thread);
}

SA_RARE void sa_background_after_fork(void)
{
    sa_pressure_end(&background.pressure); /* fork copied the descriptor */
    sa_store_relaxed(&background.state, NONE);
    sa_maintenance_want_thread(sa_load_relaxed(&background.choice) == SA_THREAD_ON, false);
    sa_maintenance_want_watch(sa_load_relaxed(&background.choice) == SA_THREAD_AUTO);
}

/* Stops the thread, if it runs, and waits for its end. Returns 0, or EBUSY: another thread is
 * stopping it. */
SA_RARE static int background_stop(void)
{
    uint32_t running = RUNNING;

    while (!sa_cas_acquire(&background.state, &running, STOPPING)) {
        if (running != STARTING)
            return running == STOPPING ? EBUSY : 0;
        sa_sys_futex_wait(&background.state, STARTING, 1000000);
        running = RUNNING;
    }
    sa_maintenance_wake();
    pthread_join(background.thread, NULL);
    sa_store_relaxed(&background.watch, false);
    sa_store_release(&background.state, NONE);
    return 0;
}

SA_RARE SA_EXPORT int salloc_start_maintenance_thread(void)
{
    sa_option_thread before = sa_load_relaxed(&background.choice);
    int saved = errno, error = 0;

    sa_init();
    background_choose(SA_THREAD_ON);
    if (sa_load_relaxed(&background.watch))
        error = background_stop();
    error = error ? error : background_start(false);
    if (error)
        background_choose(before);
    errno = error ? error : saved;
    return error ? -1 : 0;
}

SA_RARE SA_EXPORT int salloc_stop_maintenance_thread(void)
{
    int saved = errno, error;

    background_choose(SA_THREAD_OFF);
    error = background_stop();
    errno = error ? error : saved;
    return error ? -1 : 0;
}

SA_RARE int sa_background_set_choice(sa_option_thread choice)
{
    if (choice == SA_THREAD_ON)
        return salloc_start_maintenance_thread();
    /* An idle watch may stay: it ends by itself. */
    if ((choice == SA_THREAD_OFF || !sa_load_relaxed(&background.watch)) &&
        salloc_stop_maintenance_thread() != 0)
        return -1;
    background_choose(choice);
    return 0;
}

SA_RARE SA_EXPORT unsigned salloc_process_background_actions(void)
{
    int saved = errno;
    unsigned ms;

    sa_init();
    ms = sa_maintenance_background();
    sa_deferred_call_run(SA_DEFERRED_ALL);
    errno = saved;
    return ms;
}

SA_RARE SA_EXPORT int salloc_set_release_rate(size_t bytes_per_second)
{
    if (bytes_per_second > PTRDIFF_MAX) {
        errno = ERANGE;
        return -1;
    }
    sa_maintenance_set_release_rate(bytes_per_second);
    return 0;
}

SA_RARE SA_EXPORT size_t salloc_get_release_rate(void)
{
    return sa_maintenance_release_rate();
}
