/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork. Before: close the gate and stop the per-CPU caches, so that nothing is half changed while
 * the address space is copied. No lock is held meanwhile (the argument is in
 * alloc/fork/fork_gate.h). After, in the parent and the child: let everything go on. The child
 * keeps the rseq and the membarrier registration of its only thread, finds every lock free, and has
 * random draws of its own.
 *
 * Without rseq the caches of other threads cannot be stopped: the child forgets what they hold.
 *
 * A child that these handlers do not announce is put right by its first slow path
 * (alloc/fork/fork_gate.h). No sequence of its parent has to be stopped for it: one that had not
 * committed has changed nothing.
 */
#include "alloc/api/fork_handlers.h"

#include "alloc/api/at_exit.h"
#include "alloc/api/background.h"
#include "alloc/api/init.h"
#include "alloc/api/profile_output.h"
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
#include "sampling/symbolize/mappings.h"

#include <errno.h>

/* Whether the kernel refused the fence (seccomp, mostly); written and read by who has the gate. */
static bool stop_failed;

/* Of the last fork: all that tells the seeds of two children of a process apart. Written by who has
 * the gate. */
static uint64_t fork_number;

SA_RARE static void fork_prepare(void)
{
    int saved = errno;

    sa_init();
    if (sa_fork_gate_close()) {
        fork_number++;
        stop_failed = sa_rseq.per_cpu && !sa_cpu_cache_stop_all();
    }
    errno = saved;
}

SA_RARE static void fork_parent(void)
{
    int saved = errno;

    if (!sa_fork_gate_is_lost()) {
        if (sa_rseq.per_cpu)
            sa_cpu_cache_resume_all();
        sa_fork_gate_open();
    }
    errno = saved;
}

/* What a child must know, however it was made. */
static void fork_child_caches(uint64_t number, bool stopped)
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
    sa_thread.area.tid = 0; /* the only thread has another number now */
    sa_emergency_heap_after_fork();
    sa_topology_after_fork();
    sa_soft_limit_after_fork();
}

SA_RARE static void fork_child(void)
{
    int saved = errno;

    if (!sa_fork_gate_is_lost()) {
        fork_child_caches(fork_number, !stop_failed);
        sa_fork_gate_reset();
    }
    sa_mappings_after_fork();
    sa_reporting_after_fork();
    sa_at_exit_after_fork();
    sa_profile_output_after_fork(true);
    sa_background_after_fork();
    errno = saved;
}

/* Called by the first slow path of a child that was not announced. It makes no thread: it may be
 * one of a signal handler. */
static SA_COLD void fork_unannounced(bool lost)
{
    int saved = errno;

    if (!lost) {
        fork_child_caches(++fork_number ^ sa_clock_ns() << 20, true);
        /* The child may have threads by now that have only run fast paths. One of them may be
         * inside a sequence on a slab that was closed just now, and would commit what it has read
         * of the header before. The slow paths of all threads wait for this one, so nobody changes
         * a slab before the fence. Without a fence the headers stay as they are. */
        if (sa_rseq.per_cpu && !sa_rseq_fence(-1))
            sa_cpu_cache_keep_countdowns();
    } else {
        sa_cpu_cache_kick(); /* what is in caches could not be counted, nor sampled */
    }
    sa_mappings_after_fork();
    sa_reporting_after_fork();
    sa_at_exit_after_fork();
    sa_profile_output_after_fork(false);
    sa_background_after_fork();
    errno = saved;
}

/* What pthread_atfork calls, which lies in each library, at the far end of its code. */
extern int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void *);

SA_START_CODE void sa_fork_register(void)
{
    sa_fork_gate_init(fork_unannounced);
    __register_atfork(fork_prepare, fork_parent, fork_child, NULL); /* no library: never unloaded */
}
