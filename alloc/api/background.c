/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread; see background.h. It does the work that slow paths do by elapsed time, so
 * that memory also goes back while the program calls neither malloc nor free. It handles no signal
 * and calls no code of the program.
 *
 * Start. salloc_start_maintenance_thread starts the thread at once. An option only requests it: the
 * next slow path that runs maintenance starts the thread, after its own work and outside the fork
 * gate. A process that does little thus has no thread. A child of fork starts its own in the same
 * way.
 *
 * Invariant: `state` names the thread that may use the rest. The thread that changes it from NONE
 * to STARTING creates the maintenance thread; the one that changes it from RUNNING to STOPPING
 * joins it.
 */
#include "alloc/api/background.h"

#include "alloc/api/init.h"
#include "alloc/api/options.h"
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/vfork.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/os/pressure.h"
#include "alloc/os/sys.h"
#include "include/salloc/salloc.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

/* More than the thread needs. The static thread-local memory of the program and of its libraries
 * lies in it as well. */
#define STACK_BYTES (256 * 1024)

/* The longest wait for pressure. sa_maintenance_wake does not end that wait. */
#define PRESSURE_MS 2000

enum { NONE, STARTING, RUNNING, STOPPING };

static struct {
    uint32_t state;   /* atomic: compare-and-swap with acquire, stores with release (relaxed in a
                         child of fork) */
    bool wanted;      /* atomic, relaxed: start the thread; a child of fork keeps the value */
    pthread_t thread; /* written by the thread that has set STARTING, read by the one that has set
                         STOPPING */
    struct sa_pressure pressure; /* belongs to the maintenance thread */
} background;

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
SA_RARE static int background_create(void)
{
    sigset_t all, before;
    pthread_attr_t attr;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    error = pthread_create(&background.thread, &attr, background_thread, NULL);
    if (error == EINVAL) /* STACK_BYTES are too few for the thread-local memory */
        error = pthread_create(&background.thread, NULL, background_thread, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* Starts the thread unless it runs. Returns 0, or the errno that says why no thread runs. */
static int background_start(void)
{
    uint32_t none = NONE;
    int error;

    if (!sa_cas_acquire(&background.state, &none, STARTING))
        return none == STOPPING ? EBUSY : 0;
    error = background_create();
    sa_store_release(&background.state, error ? NONE : RUNNING);
    return error;
}

/* The handler of SA_DEFERRED_THREAD: runs after a slow path, outside the gate. */
SA_RARE static void background_start_lazily(void)
{
    if (sa_vfork_is_child()) /* the thread would belong to the child's process */
        sa_maintenance_want_thread(true, false);
    else if (sa_load_relaxed(&background.wanted) && background_start() != 0)
        sa_warn("maintenance_thread: cannot create a thread");
}

/* Sets whether a thread is wanted. The next maintenance pass then requests its start. */
static void background_want(bool wanted)
{
    sa_store_relaxed(&background.wanted, wanted);
    sa_deferred_call_set_handler(SA_DEFERRED_THREAD, background_start_lazily);
    sa_maintenance_want_thread(wanted, true);
}

SA_RARE bool sa_background_is_wanted(void)
{
    return sa_load_relaxed(&background.wanted);
}

SA_RARE void sa_background_read_options(void)
{
    sa_maintenance_set_release_rate(sa_options.release_rate);
    if (sa_options.maintenance_thread || sa_options.pressure)
        background_want(true);
}

SA_RARE void sa_background_after_fork(void)
{
    sa_pressure_end(&background.pressure); /* fork copied the descriptor */
    sa_store_relaxed(&background.state, NONE);
    if (sa_load_relaxed(&background.wanted))
        sa_maintenance_want_thread(true, false);
}

SA_RARE SA_EXPORT int salloc_start_maintenance_thread(void)
{
    int saved = errno, error;

    sa_init();
    background_want(true);
    error = background_start();
    if (error)
        background_want(false);
    errno = error ? error : saved;
    return error ? -1 : 0;
}

SA_RARE SA_EXPORT int salloc_stop_maintenance_thread(void)
{
    int saved = errno;
    uint32_t running = RUNNING;

    background_want(false);
    while (!sa_cas_acquire(&background.state, &running, STOPPING)) {
        if (running != STARTING) {
            errno = running == STOPPING ? EBUSY : saved;
            return running == STOPPING ? -1 : 0;
        }
        sa_sys_futex_wait(&background.state, STARTING, 1000000);
        running = RUNNING;
    }
    sa_maintenance_wake();
    pthread_join(background.thread, NULL);
    sa_store_release(&background.state, NONE);
    errno = saved;
    return 0;
}

SA_RARE SA_EXPORT unsigned salloc_process_background_actions(void)
{
    int saved = errno;
    unsigned ms;

    sa_init();
    ms = sa_maintenance_background();
    sa_deferred_call_run();
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
