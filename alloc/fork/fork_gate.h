/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fork gate is a read-write lock that is held across fork: every slow path is a reader, fork is
 * the writer.
 *
 * fork copies the address space while other threads run, so it may happen only while no state of
 * the allocator is half changed. A handler that takes every lock, as is usual, deadlocks: another
 * thread may hold a lock of libc that fork wants next, and wait in malloc for a lock of the
 * allocator. fork instead closes the gate, waits until no thread is inside, and stops the per-CPU
 * caches. The wait is short, because readers wait only for each other. A thread that finds the gate
 * closed waits for at most 50 ms. Then fork may be waiting for this thread, which goes on without
 * the allocator's state: it allocates from the emergency heap and puts frees aside
 * (alloc/fork/emergency_heap.h).
 *
 * To enter is a sequentially consistent increment followed by a load of `closed`. To close is a
 * store to `closed` followed by loads of the counters, also sequentially consistent. So one of the
 * two sees the other. The counters are striped over cache lines, so that threads do not share one.
 *
 * Children that fork's handlers do not announce (the bare system call, _Fork). The word that says
 * that the gate is open lies on a page that the kernel clears in children. The child's first slow
 * path therefore finds the gate closed. The child has one thread, and memory as it was at one
 * moment of all threads. If no other thread was inside the gate, no state is half changed and no
 * lock is held: the child goes on as a child of fork. Otherwise the state stays half changed. The
 * gate then never opens in the child, which uses the emergency heap for good. The page is made when
 * the second thread comes, as one thread alone can lose no other. Until then libc's word that says
 * that there is one thread also says that the gate is open.
 */
#ifndef SA_FORK_FORK_GATE_H
#define SA_FORK_FORK_GATE_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/single_threaded.h"
#include "alloc/os/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_FORK_GATE_STRIPES 16

/* All zero in a child that was not announced. */
struct sa_fork_gate_page {
    char open;          /* atomic: 0 while the gate is closed */
    uint32_t alive;     /* atomic: 1 */
    uint32_t repairing; /* atomic: a thread of a child that was not announced */
};

struct sa_fork_gate {
    struct {
        uint32_t inside; /* atomic */
    } __attribute__((aligned(SA_CACHELINE))) stripe[SA_FORK_GATE_STRIPES];
    uint32_t closed;                /* atomic: 1 or 0, written by who holds `forking` */
    uint32_t forking;               /* atomic: a lock of its own kind, see fork_gate.c */
    struct sa_fork_gate_page *page; /* atomic: const once there is one */
    uint32_t lost; /* atomic: 1 in a child that was not announced while threads were inside */
    /* Not 0: a debugger calls a function, and a thread that is inside may hold a lock that the call
     * needs. A nested slow path is then turned away, as by a closed gate. Written by debuggers only
     * (debug/calls.py). */
    uint32_t debugger;
};

extern struct sa_fork_gate sa_fork_gate;
extern char *sa_fork_gate_open_word; /* atomic: what it points to is 0 while the gate is closed */

/* Prepares the gate, once in each process. A child that was not announced calls `child` before
 * anything else; lost: see sa_fork_gate. */
void sa_fork_gate_init(void (*child)(bool lost));

/* Whether this is a lost child, which uses the emergency heap for good. */
SA_INLINE bool sa_fork_gate_is_lost(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_fork_gate.lost) != 0);
}

bool sa_fork_gate_refuses_child(void);
void sa_fork_gate_look(unsigned stripe);
bool sa_fork_gate_enter_closed(unsigned stripe);
unsigned sa_fork_gate_stripe(void);
void sa_fork_gate_repair(void);

/*
 * Brackets the instructions during which this thread's count and its depth disagree. A signal
 * handler that forks in between cannot tell whether the thread is counted; its child sets the
 * count right when the interrupted code gets to the end of the bracket. Handlers nest.
 */
SA_INLINE void sa_fork_gate_move_begin(void)
{
    sa_thread.gate_moving++;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

SA_INLINE void sa_fork_gate_move_end(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (--sa_thread.gate_moving == 0 && SA_UNLIKELY(sa_thread.gate_broken))
        sa_fork_gate_repair();
}

/* Counts the thread in or out. Signal handlers that come between the load and the store enter as
 * often as they leave. */
SA_INLINE void sa_fork_gate_count(unsigned stripe, bool enter)
{
    uint32_t *inside = &sa_fork_gate.stripe[stripe].inside;

    if (sa_single_threaded())
        sa_count_add(inside, enter ? 1 : UINT32_MAX);
    else if (enter)
        sa_add_seq_cst(inside, 1);
    else
        sa_sub_release(inside, 1);
}

/* Enters the gate; nests. False: a fork is in progress and may be waiting for this thread, or a
 * debugger has turned nested slow paths away (see `debugger`), or this is a child of vfork, which
 * may be killed inside. */
SA_INLINE bool sa_fork_gate_enter(void)
{
    unsigned stripe;

    if (SA_UNLIKELY(sa_thread_is_vfork_child()) && sa_fork_gate_refuses_child())
        return false;
    if (sa_thread.gate_depth) {
        if (SA_UNLIKELY(sa_load_relaxed(&sa_fork_gate.debugger)))
            return false;
        sa_thread.gate_depth++;
        return true;
    }
    /* The depth is set last: a signal handler that allocates before that enters by itself. */
    stripe = sa_fork_gate_stripe();
    if (SA_UNLIKELY(!sa_load_relaxed(sa_load_acquire(&sa_fork_gate_open_word))))
        sa_fork_gate_look(stripe);
    sa_fork_gate_move_begin();
    sa_fork_gate_count(stripe, true);
    if (SA_UNLIKELY(!sa_load_seq_cst(sa_load_acquire(&sa_fork_gate_open_word))) &&
        !sa_fork_gate_enter_closed(stripe)) {
        sa_fork_gate_move_end();
        return false;
    }
    sa_thread.gate_stripe = (uint16_t)stripe;
    sa_thread.gate_depth = 1;
    sa_fork_gate_move_end();
    return true;
}

SA_INLINE void sa_fork_gate_leave(void)
{
    if (sa_thread.gate_depth > 1) {
        sa_thread.gate_depth--;
        return;
    }
    sa_fork_gate_move_begin();
    sa_thread.gate_depth = 0;
    sa_fork_gate_count(sa_thread.gate_stripe, false);
    sa_fork_gate_move_end();
}

/*
 * Closes the gate for fork, and waits until no other thread is inside. Threads that fork at the
 * same time do it one after the other. Every wait is bounded, by 10 s. So a program that left a
 * slow path by longjmp, or waits for itself in another way, goes on.
 *
 * The gate stays open to the thread that closes it: fork handlers that run later may allocate.
 * False: this is a lost child, which has no state to protect.
 */
bool sa_fork_gate_close(void);
void sa_fork_gate_open(void);

/* Whether a fork is in progress. Work that can wait is then left for later. */
SA_INLINE bool sa_fork_gate_is_closed(void)
{
    return sa_load_seq_cst(&sa_fork_gate.closed);
}

/* Opens the gate in a child of fork, whose only thread calls this. */
void sa_fork_gate_reset(void);

#endif
