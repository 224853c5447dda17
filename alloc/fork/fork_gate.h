/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate: every slow path is a reader, fork is the writer.
 *
 * fork copies the address space while other threads run, so it may only happen while nothing of the
 * allocator is half changed. Taking every lock first, as is usual, dead-locks: another thread may
 * hold a lock of libc's that fork wants next, and wait in malloc for ours. So fork closes the gate,
 * waits until nobody is inside (readers never wait for anything but each other, so that is soon)
 * and stops the per-CPU caches. A thread that finds the gate closed waits a little; if fork
 * takes long, it may be waiting for this very thread, which then goes on without the allocator's
 * state: allocations come from emergency memory, frees are put aside (alloc/fork/emergency_heap.h).
 *
 * Entering is a sequentially consistent increment followed by a load of `closed`; closing is a
 * store to `closed` followed by loads of the counters (also sequentially consistent): one of the
 * two sees the other. Counters are striped so that threads do not share a line for this.
 *
 * Children that fork's handlers do not announce (the bare system call, _Fork). What says that the
 * gate is open lies on a page that the kernel clears in children. So the child's first slow path
 * finds the gate closed, and finds out why. The child is a copy of one moment of all threads, of
 * which it has one. If nobody else was inside the gate then, nothing is half changed, no lock is
 * held, and the child goes on as one of fork. Otherwise what the lost threads were changing stays
 * so: the gate then never opens in the child, which allocates by other means for good
 * (alloc/fork/emergency_heap.h). The page is made when there is a second thread (before, nobody can
 * be lost): until then the word that says that the gate is open is libc's that says that there is
 * one thread.
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

/* What each process does once. child: in a child that was not announced, before anything else;
 * lost: see sa_fork_gate. */
void sa_fork_gate_init(void (*child)(bool lost));

/* Whether this is a child that will not use the allocator's state any more. */
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

/* Signal handlers that come in between enter as often as they leave. */
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

/* False: a fork is in progress and may be waiting for this thread, or see `debugger`, or this is a
 * child of vfork, which may be killed inside. Nests. */
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
    /* In this order, a signal handler that allocates in between enters on its own account. */
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
 * For fork: closes the gate and waits until no other thread is inside. Threads that fork at once do
 * it one after the other. Every wait is bounded, by seconds, so that a program that left a slow
 * path by longjmp, or waits for itself in some other way, goes on nevertheless.
 *
 * To the thread that closes it the gate stays open: handlers of fork that run later may allocate.
 * False: this is a lost child, in which nothing is to be done.
 */
bool sa_fork_gate_close(void);
void sa_fork_gate_open(void);

/* Whether a fork is in progress: whatever can wait should. */
SA_INLINE bool sa_fork_gate_is_closed(void)
{
    return sa_load_seq_cst(&sa_fork_gate.closed);
}

/* For the child: opens the gate; this thread is the only one. */
void sa_fork_gate_reset(void);

#endif
