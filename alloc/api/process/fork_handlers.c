/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handlers of fork.
 *
 * Before fork, the handler closes the fork gate and stops the per-CPU caches, so that no state is
 * half changed while the kernel copies the address space. No lock is held across fork;
 * alloc/fork/fork_gate.h has the argument. Afterwards the handlers of parent and child let
 * everything go on. The child keeps the rseq registration and the membarrier registration of its
 * only thread, finds every lock free, and gets random numbers of its own. Without rseq the caches
 * of other threads cannot be stopped: the child forgets what they hold.
 *
 * A child that these handlers do not announce is put right by its first slow path
 * (alloc/fork/fork_gate.h). No sequence of the parent needs to be stopped for such a child: a
 * sequence that has not committed has changed nothing.
 *
 * The thread that has closed the gate owns the variables of this file.
 */
#include "alloc/api/process/fork_handlers.h"

#include "alloc/api/control/background.h"
#include "alloc/api/control/control.h"
#include "alloc/api/init.h"
#include "alloc/api/control/output.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/cpu_cache/thread_slots.h"
#include "alloc/fork/emergency_heap.h"
#include "alloc/fork/fork_gate.h"
#include "alloc/fork/vfork.h"
#include "alloc/maintain/soft_limit.h"
#include "alloc/middle/topology.h"
#include "alloc/os/clock.h"
#include "alloc/os/rseq.h"
#include "alloc/os/thread.h"
#include "sampling/guard/reporting.h"
#include "sampling/sampler/sampler.h"
#include "sampling/stack/unwind_pages.h"
#include "sampling/symbolize/mappings.h"

#include <errno.h>

/* The kernel refused the fence (usually seccomp), so the caches were not stopped. Written and read
 * by the thread that has closed the gate. */
static SA_START_DATA bool stop_failed;

/*
 * The number of the last fork, which alone distinguishes the seeds of two children of a process.
 * Written by the thread that has closed the gate; by the first slow path in an unannounced child.
 */
static SA_START_DATA uint64_t fork_number;

/* The analysis skips the handlers: the gate stays closed from one to the next. */
SA_FORK static void fork_prepare(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    int saved = errno;

    sa_init();
    if (sa_fork_gate_close()) {
        fork_number++;
        stop_failed = sa_rseq.per_cpu && !sa_cpu_cache_stop_all();
    }
    errno = saved;
}

SA_FORK static void fork_parent(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint32_t held = sa_thread.held_ranks;
    int saved = errno;

    /* A signal handler forks, and the code that it has interrupted holds locks. Their ranks do not
     * matter here: nothing waits for a lock. */
    sa_thread.held_ranks = 0;
    if (!sa_fork_gate_is_lost()) {
        if (sa_rseq.per_cpu)
            sa_cpu_cache_resume_all();
        sa_fork_gate_open();
    }
    sa_thread.held_ranks = held;
    errno = saved;
}

/* Corrects the state of a child, announced or not. number: the fork's, for the child's seeds.
 * stopped: no sequence was running on a per-CPU cache when the kernel copied the address space. */
SA_FORK static void fork_child_caches(uint64_t number, bool stopped)
{
    if (!sa_rseq.per_cpu) {
        sa_cpu_cache_abandon_others(sa_percpu_cpu());
        sa_thread_slots_after_fork();
    } else if (!stopped) {
        sa_cpu_cache_abandon_others(-1);
    }
    sa_sampler_after_fork(number);
    sa_cpu_cache_after_fork();
    sa_vfork_after_fork();
    sa_thread.area.tid = 0; /* the kernel has given the child's only thread another number */
    sa_emergency_heap_after_fork();
    sa_topology_after_fork();
    sa_soft_limit_after_fork();
}

/* The rest of a child's state. threads: whether it may start threads. */
SA_FORK static void fork_child_rest(bool threads)
{
    sa_mappings_after_fork();
    sa_unwind_pages_after_fork();
    sa_reporting_after_fork();
    sa_output_after_fork(threads);
    sa_control_after_fork(threads);
    sa_background_after_fork();
}

/* Without errno, which lies on pages that the child has not touched: only the creation of threads,
 * in control.c and output.c, changes it, and they keep it. */
SA_FORK static void fork_child(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    if (!sa_fork_gate_is_lost()) {
        fork_child_caches(fork_number, !stop_failed);
        sa_fork_gate_reset();
    }
    fork_child_rest(true);
}

/*
 * Called by the first slow path of a child that was not announced; lost: threads were inside the
 * gate when the process was copied. It starts no thread: the slow path may run in a signal handler.
 */
static SA_COLD void fork_unannounced(bool lost)
{
    int saved = errno;

    if (!lost) {
        fork_child_caches(++fork_number ^ sa_clock_ns() << 20, true);
        /*
         * The child may by now have threads that have run fast paths only. One of them may be
         * inside a sequence on a slab that was closed a moment ago, and would commit the header
         * that it read before. The slow paths of all threads wait for this one, so no thread
         * changes a slab before the fence. Without a fence the headers stay as they are.
         */
        if (sa_rseq.per_cpu && !sa_rseq_fence(-1))
            sa_cpu_cache_keep_countdowns();
    } else {
        sa_cpu_cache_kick(); /* the child cannot count what the caches hold, nor sample it */
    }
    fork_child_rest(false);
    errno = saved;
}

/* The function behind pthread_atfork. libc links a copy of pthread_atfork into each library, far
 * from the rest of its start code. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

SA_START_CODE void sa_fork_register(void)
{
    sa_fork_gate_init(fork_unannounced);
    __register_atfork(fork_prepare, fork_parent, fork_child,
                      NULL); /* NULL, no library: the handlers stay when a library is unloaded */
}
