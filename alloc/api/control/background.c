/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maintenance thread; see background.h. It does the work that slow paths do by elapsed time, so
 * that memory also goes back while the program calls neither malloc nor free. It handles no signal
 * and calls no code of the program.
 *
 * Start. salloc_start_maintenance_thread starts the thread at once. An option only requests it: the
 * next slow path that runs maintenance starts the thread, after its own work and outside the fork
 * gate, if its caller holds no lock that the creation needs (background_may_create). A process that
 * does little thus has no thread. A child of fork starts its own in the same way.
 *
 * With SA_THREAD_AUTO the thread is an idle watch: maintenance requests it when the program
 * might become idle and leave much free memory behind. Once it has released that, it ends. It also
 * ends when the main thread has ended, and before a filter of system calls is installed.
 *
 * Invariant: `state` names the thread that may use the rest. The thread that changes it from NONE
 * to STARTING creates the maintenance thread; the one that changes it from RUNNING or ENDED to
 * STOPPING joins it. An idle watch that ends by itself changes it from RUNNING to ENDED.
 *
 * A thread that finds NONE sets STARTING and then looks again at what the program has chosen. A
 * program that changes its choice stores it and then looks at the state. So either the first thread
 * sees the choice, or the program sees STARTING and waits. Both orders are sequentially consistent.
 */
#include "alloc/api/control/background.h"

#include "alloc/api/init.h"
#include "alloc/api/options/options.h"
#include "alloc/api/control/own_thread.h"
#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"
#include "alloc/base/single_threaded.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/fork/vfork.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/maintain/release_rate.h"
#include "alloc/os/filter.h"
#include "alloc/os/pressure.h"
#include "alloc/os/sys.h"
#include "alloc/page_heap/page_heap.h"
#include "include/salloc/salloc.h"
#include "sampling/stack/loaded_object.h"
#include "sampling/stack/stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>

/* More than the thread needs. The static thread-local memory of the program and of its libraries
 * lies in it as well. */
#define STACK_BYTES (256 * 1024)

/* The longest wait for pressure. sa_maintenance_wake does not end that wait. */
#define PRESSURE_MS 2000

/* The same for an idle watch. If it is the last thread, libc runs the program's exit handlers on
 * it. */
#define WATCH_STACK_BYTES (1024 * 1024)

/* Return addresses of the allocator's own, and the one behind them. */
#define CALLERS 16

/* The time to the next attempt, after a caller that may hold locks, and after the kernel has
 * refused a thread. */
#define CALLER_NS 10000000ull
#define RETRY_NS  60000000000ull

/* How long a call of prctl waits for the end of the idle watch, in steps of STEP_NS. */
#define LEAVE_STEPS 100
#define STEP_NS     1000000

enum { NONE, STARTING, RUNNING, STOPPING, ENDED };

static struct {
    /* Atomic. Changes out of NONE and ENDED, and those into STOPPING and ENDED, are sequentially
     * consistent, as are stores of `choice`. */
    uint32_t state;
    sa_option_thread choice; /* atomic; a child of fork keeps the value */
    /* Written by the thread that has set STARTING, atomic, relaxed: it is an idle watch; and the
     * signal mask of its creator. */
    bool watch;
    sigset_t mask;
    bool leave;       /* atomic: the idle watch is asked to end */
    pthread_t thread; /* written by the thread that has set STARTING, read by the one that has set
                         STOPPING */
    struct sa_pressure pressure; /* belongs to the maintenance thread */
} background;

/* A thread was begun, or put off, in this process or before a fork, so that a child has something
 * to set back. Atomic, relaxed: set by the thread that does so, before it does. */
static SA_START_DATA bool background_begun;

/* What reports show. */
SA_LAYOUT = {
    SA_LAYOUT_STATE("background", background, choice),
};
SA_LAYOUT_STATIC_ADDRESS("background", background);

/* Changes the state. False: it was another one, which *from is then. */
static bool background_change(uint32_t *from, uint32_t to)
{
    return __atomic_compare_exchange_n(&background.state, from, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

SA_RARE unsigned sa_background_threads_left(void)
{
    char text[512], *at;

    if (sa_filtered() || sa_sys_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
        return 0;
    at = strrchr(text, ')'); /* behind the name: the state of the main thread is the third field */
    if (!at || at[1] != ' ' || at[2] != 'Z')
        return 0;
    at += 2;
    for (int field = 3; at && field < 20; field++) /* and the number of threads is the 20th */
        at = strchr(at + 1, ' ');
    return !at ? 0 : at[2] == ' ' ? (unsigned)(at[1] - '0') : 10;
}

/*
 * The body of the thread as an idle watch. libc ends the process with its last thread, and runs the
 * program's exit handlers on that thread. So the watch does not stay when the main thread has ended
 * before its time. If it is the last one nevertheless, it has the creator's signal mask.
 */
SA_RARE static void *background_watch(void *unused)
{
    struct sa_idle_watch watch = {0};
    uint32_t running = RUNNING;
    unsigned left, ms;

    sa_sys_name_thread("salloc-idle");
    for (;;) {
        uint32_t wakes = sa_maintenance_wakes();

        if (sa_load_acquire(&background.state) == STOPPING)
            return unused;
        left = sa_background_threads_left();
        ms = left || sa_load_acquire(&background.leave) ? 0 : sa_maintenance_watch(&watch);
        if (!ms)
            break;
        sa_maintenance_sleep(wakes, ms);
    }
    if (left == 2)
        pthread_sigmask(SIG_SETMASK, &background.mask, NULL);
    while (!background_change(&running, ENDED)) {
        if (running == STOPPING)
            return unused;
        sa_sys_futex_wait(&background.state, STARTING, STEP_NS); /* for its creator */
        running = RUNNING;
    }
    if (!left && __atomic_load_n(&background.choice, __ATOMIC_SEQ_CST) == SA_THREAD_AUTO)
        sa_maintenance_want_watch(0);
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

/* Creates the thread with all signals blocked, but for an idle watch SIGSYS: a program may have a
 * filter that answers system calls by this signal, which would end the process if it were blocked.
 * Returns 0 or an errno. */
SA_RARE static int background_create(bool watch)
{
    struct sa_own_thread thread = {.body = watch ? background_watch : background_thread,
                                   .stack_bytes = watch ? WATCH_STACK_BYTES : STACK_BYTES,
                                   .takes_sigsys = watch};

    return sa_own_thread_create(&thread, &background.mask, &background.thread);
}

/* Stops the thread, if it runs, and waits for its end. Returns 0, or EBUSY: another thread is
 * stopping it. */
SA_RARE static int background_stop(void)
{
    uint32_t state = RUNNING;

    while (!background_change(&state, STOPPING)) {
        if (state == NONE)
            return 0;
        if (state == STOPPING)
            return EBUSY;
        if (state == STARTING) {
            sa_sys_futex_wait(&background.state, STARTING, STEP_NS);
            state = RUNNING;
        }
    }
    sa_maintenance_wake();
    pthread_join(background.thread, NULL);
    sa_store_release(&background.state, NONE);
    return 0;
}

/* Starts the thread unless it runs, in place of an idle watch. Returns 0, or the errno that says
 * why no thread runs. */
SA_RARE static int background_start(bool watch)
{
    uint32_t state = NONE;
    int error;

    sa_store_relaxed(&background_begun, true);
    while (!background_change(&state, STARTING)) {
        if (state == STOPPING)
            return EBUSY;
        if (state == STARTING && !watch)
            sa_sys_futex_wait(&background.state, STARTING, STEP_NS);
        else if (state == ENDED ||
                 (state == RUNNING && !watch && sa_load_relaxed(&background.watch)))
            background_stop();
        else
            return 0;
        state = NONE;
    }
    if (__atomic_load_n(&background.choice, __ATOMIC_SEQ_CST) !=
        (watch ? SA_THREAD_AUTO : SA_THREAD_ON)) {
        sa_store_release(&background.state, NONE); /* the program has changed its mind */
        return 0;
    }
    sa_store_relaxed(&background.watch, watch);
    sa_store_relaxed(&background.leave, false);
    error = background_create(watch);
    sa_store_release(&background.state, error ? NONE : RUNNING);
    return error;
}

#ifndef SA_STATIC

/* Whether an address lies in the loaded object `of`. */
static bool background_is_in(const void *address, const struct sa_loaded_object *of)
{
    return (uintptr_t)address >= of->start && (uintptr_t)address < of->end;
}

/*
 * Whether the caller of malloc or free holds no lock that the creation of a thread needs. libc and
 * the loader call both under their locks: of the stacks of threads, of the list of thread-local
 * memory. A pthread_create that the program has put in the place of libc's may take a lock that the
 * program holds.
 */
SA_RARE static bool background_may_create(void)
{
    struct sa_loaded_object own, libc, loader = {0};
    uintptr_t pc[CALLERS];
    unsigned n = sa_stack_capture(__builtin_dwarf_cfa(), pc, CALLERS), i = 0;

    if (!sa_loaded_object_find((uintptr_t)&background, &own) ||
        !sa_loaded_object_find((uintptr_t)getauxval, &libc) ||
        !background_is_in((void *)pthread_create, &libc))
        return false;
    if (getauxval(AT_BASE))
        sa_loaded_object_find(getauxval(AT_BASE), &loader);
    while (i < n && background_is_in((void *)pc[i], &own))
        i++;
    return i < n && !background_is_in((void *)pc[i], &libc) &&
           !background_is_in((void *)pc[i], &loader);
}

#else /* libc is part of the program: the caller cannot be told */

SA_RARE static bool background_may_create(void)
{
    return sa_load_relaxed(&background.choice) == SA_THREAD_ON;
}

#endif

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

    sa_store_relaxed(&background_begun, true);
    if (sa_vfork_is_child() || /* the thread would belong to the child's process */
        !background_may_create()) {
        sa_maintenance_want_watch(choice == SA_THREAD_AUTO ? CALLER_NS : SA_NEVER);
        sa_maintenance_want_thread(choice == SA_THREAD_ON, false);
    } else if (choice == SA_THREAD_ON) {
        if (background_start(false) != 0)
            sa_warn("maintenance_thread: cannot create a thread");
    } else if (choice == SA_THREAD_AUTO && background_may_watch() && background_start(true) != 0) {
        sa_maintenance_want_watch(RETRY_NS);
    }
}

/* Sets whether a thread is wanted. The next maintenance pass then requests its start. */
static void background_choose(sa_option_thread choice)
{
    __atomic_store_n(&background.choice, choice, __ATOMIC_SEQ_CST);
    sa_deferred_call_set_handler(SA_DEFERRED_THREAD, background_start_lazily);
    sa_maintenance_want_thread(choice == SA_THREAD_ON, true);
    sa_maintenance_want_watch(choice == SA_THREAD_AUTO ? 0 : SA_NEVER);
}

SA_RARE sa_option_thread sa_background_choice(void)
{
    return sa_load_relaxed(&background.choice);
}

SA_RARE void sa_background_read_options(void)
{
    sa_release_rate_set(sa_options.release_rate);
    background_choose(sa_options.pressure ? SA_THREAD_ON : sa_options.maintenance_thread);
}

SA_FORK void sa_background_after_fork(void)
{
    sa_store_changed(&sa_page_heap_swings, 0);
    if (!sa_load_relaxed(&background_begun))
        return;
    sa_pressure_end(&background.pressure); /* fork copied the descriptor */
    sa_store_relaxed(&background.state, NONE);
    sa_maintenance_want_thread(sa_load_relaxed(&background.choice) == SA_THREAD_ON, false);
    sa_maintenance_want_watch(sa_load_relaxed(&background.choice) == SA_THREAD_AUTO ? 0 : SA_NEVER);
}

SA_RARE void sa_background_leave(void)
{
    if (sa_thread_is_vfork_child() || sa_load_acquire(&background.state) != RUNNING ||
        !sa_load_relaxed(&background.watch))
        return;
    sa_store_release(&background.leave, true);
    sa_maintenance_wake();
    for (int i = 0; i < LEAVE_STEPS && sa_load_acquire(&background.state) == RUNNING; i++)
        sa_sys_futex_wait(&background.state, RUNNING, STEP_NS);
}

/* Begins a call from outside. The fork gate puts a child right that no handler has announced: there
 * is no thread in it. */
SA_RARE static void background_enter(void)
{
    sa_init();
    if (sa_fork_gate_enter())
        sa_fork_gate_leave();
}

SA_RARE SA_EXPORT int salloc_start_maintenance_thread(void)
{
    sa_option_thread before = sa_load_relaxed(&background.choice);
    int saved = errno, error;

    background_enter();
    background_choose(SA_THREAD_ON);
    error = background_start(false);
    if (error)
        background_choose(before);
    errno = error ? error : saved;
    return error ? -1 : 0;
}

SA_RARE SA_EXPORT int salloc_stop_maintenance_thread(void)
{
    int saved = errno, error;

    background_enter();
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
    sa_release_rate_set(bytes_per_second);
    return 0;
}

SA_RARE SA_EXPORT size_t salloc_get_release_rate(void)
{
    return sa_release_rate_get();
}
