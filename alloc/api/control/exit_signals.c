/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last files of a process that SIGTERM or SIGABRT (abort) ends; see doc/tuning.md.
 *
 * The handler may interrupt any code, which may hold any lock. It therefore writes nothing: it asks
 * the thread of output.c to write, waits until that has happened, and sends the signal once more,
 * for the default action. The wait is bounded, because the interrupted code may hold a lock that
 * the thread needs, as that of the loader. If the signal has interrupted a slow path of the
 * allocator, the handler does not wait: it returns, and the thread ends the process in its place.
 *
 * A process without the thread (a child of vfork, or one that no fork handler announces) ends at
 * once: `pid` is not its own. A second signal ends the process at once, too, because the kernel has
 * set the default action again when it called the handler (SA_RESETHAND).
 *
 * The first signal claims `claimed`; its thread writes `left` and then `number`. All words are
 * atomic.
 */
#include "alloc/api/control/exit_signals.h"

#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#define PATIENCE_NS 5000000000ull /* how long a signal waits for the files */

/* Not SIGINT: programs that handle it only if its action is the default (Python) would not. */
static const int numbers[] = {SIGTERM, SIGABRT};

static struct {
    uint32_t *bell;   /* const after the constructor */
    int pid;          /* relaxed: of the process whose thread writes; 0: none */
    uint32_t claimed; /* a signal has come */
    uint32_t number;  /* release, acquire: that signal; 0: none */
    uint32_t left;    /* relaxed: it does not wait */
    uint32_t written; /* release, acquire: a futex word, 1 once the files are written */
} signals;

/* Waits until the files are written. */
static void exit_signals_wait(void)
{
    uint64_t now = sa_clock_ns(), end = now + PATIENCE_NS;

    while (!sa_load_acquire(&signals.written) && now < end) {
        sa_sys_futex_wait(&signals.written, 0, (int64_t)(end - now));
        now = sa_clock_ns();
    }
}

/* Asks for the files. Returns whether the process is to end now. */
static bool exit_signals_ask(int number)
{
    bool left = sa_thread.gate_depth || sa_thread.gate_moving;

    if (sa_load_relaxed(&signals.pid) != sa_sys_pid() || sa_xchg_acquire(&signals.claimed, 1))
        return true;
    sa_store_relaxed(&signals.left, left);
    sa_store_release(&signals.number, (uint32_t)number);
    sa_add_seq_cst(signals.bell, 1);
    sa_sys_futex_wake(signals.bell, 1);
    if (!left)
        exit_signals_wait();
    return !left;
}

static void exit_signals_handle(int number)
{
    int saved = errno;

    /* The signal stays blocked until the handler returns. */
    if (exit_signals_ask(number))
        sa_sys_raise(number);
    errno = saved;
}

void sa_exit_signals_register(uint32_t *bell)
{
    struct sigaction action = {.sa_handler = exit_signals_handle,
                               .sa_flags = SA_RESTART | SA_ONSTACK | SA_RESETHAND};

    signals.bell = bell;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction before;

        if (sigaction(numbers[i], NULL, &before) != 0 || before.sa_handler != SIG_DFL)
            continue;
        if (sigaction(numbers[i], &action, NULL) != 0)
            sa_warn("exit_signals: cannot handle signal %d", numbers[i]);
    }
}

void sa_exit_signals_serve(int pid)
{
    sa_store_relaxed(&signals.pid, pid);
}

void sa_exit_signals_after_fork(void)
{
    sa_exit_signals_serve(0);
    sa_store_relaxed(&signals.claimed, 0);
    sa_store_relaxed(&signals.number, 0);
    sa_store_relaxed(&signals.written, 0);
}

int sa_exit_signals_pending(void)
{
    return (int)sa_load_acquire(&signals.number);
}

void sa_exit_signals_done(void)
{
    int number = sa_exit_signals_pending();

    sa_store_relaxed(&signals.number, 0);
    sa_store_release(&signals.written, 1);
    sa_sys_futex_wake(&signals.written, 1);
    if (sa_load_relaxed(&signals.left)) {
        sa_sys_unblock(number);
        sa_sys_raise(number);
    }
}
