/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fork gate is a read-write lock that is held across fork. Every slow path is a reader: it
 * enters the gate, works inside, and leaves. fork is the writer: it closes the gate.
 *
 * Why a gate. fork copies the address space while other threads run, so it may run only while no
 * state of the allocator is half changed. The usual handler of fork takes every lock, and
 * deadlocks: another thread may hold a lock of libc that fork wants next, and wait in malloc for a
 * lock of the allocator. Instead, fork closes the gate, waits until no other thread is inside, and
 * stops the per-CPU caches. This wait is short, because threads inside wait only for each other. A
 * thread that finds the gate closed waits for at most 50 ms. After that, fork may be waiting for
 * this thread. The thread goes on without the state of the allocator: it allocates from the
 * emergency heap and puts frees aside (alloc/fork/emergency_heap.h).
 *
 * Memory order. A thread enters by an increment followed by a load of the open word. fork closes by
 * a store to `closed` and to the open word followed by loads of the counters. All are sequentially
 * consistent, so that at least one side sees the other. The counters are striped over cache lines,
 * so that threads on different CPUs seldom share one.
 *
 * Unannounced children are children that fork's handlers do not announce (the bare system call,
 * _Fork). The open word lies on a page that the kernel clears in children (MADV_WIPEONFORK). So the
 * first slow path of such a child finds the gate closed. The child has one thread, and its memory
 * is a copy of one moment of all threads. If no other thread was inside the gate, no state is half
 * changed and no lock is held: the slow path repairs the child as a child of fork. Otherwise the
 * child is lost: its state stays half changed, its gate never opens, and it uses the emergency heap
 * for good.
 *
 * The page is mapped when a second thread exists, because a process of one thread has no other
 * thread to lose. Until then, libc's word that says that the process has one thread serves as the
 * open word.
 *
 * clang's analysis (alloc/base/thread_safety.h) knows the gate as a capability. Threads that are
 * inside share it. The thread that forks has it exclusively, from sa_fork_gate_close to
 * sa_fork_gate_open or sa_fork_gate_reset.
 */
#ifndef SA_FORK_FORK_GATE_H
#define SA_FORK_FORK_GATE_H

#include "alloc/base/atomic.h"
#include "alloc/base/attrs.h"
#include "alloc/base/fatal.h"
#include "alloc/base/single_threaded.h"
#include "alloc/base/thread_safety.h"
#include "alloc/os/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_FORK_GATE_STRIPES 16

/* The page of the open word. All zero in a child, until fork's last handler or the child's first
 * slow path writes it. */
struct sa_fork_gate_page {
    /* 0: the gate is closed; atomic, written by the holder of `forking`, or by the thread that
     * repairs a child */
    char open;
    /* 1; 0 in a child that is neither announced nor repaired yet; atomic, release and acquire */
    uint32_t alive;
    uint32_t repairing; /* 1: a thread repairs this child; atomic exchange */
};

struct sa_fork_gate {
    struct {
        /* Threads inside that entered by this stripe; atomic: each thread counts itself. */
        uint32_t inside;
    } __attribute__((aligned(SA_CACHELINE))) stripe[SA_FORK_GATE_STRIPES];
    /* 1: the gate is closed; atomic, sequentially consistent: written by the holder of `forking` */
    uint32_t closed;
    /* 1: a thread forks; atomic: a lock of its own kind, see gate_lock in fork_gate.c */
    uint32_t forking;
    /* NULL: not mapped yet; atomic: stored once, with release order, by a holder of `forking` */
    struct sa_fork_gate_page *page;
    /* 1: this is a lost child; atomic: written by the thread that repairs the child */
    uint32_t lost;
    /* Not 0: a debugger calls a function of the program. A thread that is inside may hold a lock
     * that the call needs. A nested slow path then finds the gate closed. Written by debuggers only
     * (debug/calls.py). */
    uint32_t debugger;
};

extern struct sa_fork_gate sa_fork_gate;
/* The open word: 0 while the gate is closed; the pointer is atomic: stored with release order by
 * start-up and by the thread that maps the page. */
extern char *sa_fork_gate_open_word;

/* Prepares the gate; called once, at start. An unannounced child calls `child` on its first slow
 * path, before that enters; lost: the child is lost. */
void sa_fork_gate_init(void (*child)(bool lost));

/* True if this is a lost child, which uses the emergency heap for good. */
SA_INLINE bool sa_fork_gate_is_lost(void)
{
    return SA_UNLIKELY(sa_load_relaxed(&sa_fork_gate.lost) != 0);
}

/* The rare parts of sa_fork_gate_enter. refuses_child: true for a child of vfork in the memory of
 * its parent. look: the open word is 0 before the thread is counted. enter_closed: it is 0 after
 * the thread was counted; false: the thread is not inside, and not counted. */
bool sa_fork_gate_refuses_child(void);
void sa_fork_gate_look(unsigned stripe);
bool sa_fork_gate_enter_closed(unsigned stripe);
/* The stripe of the current CPU. */
unsigned sa_fork_gate_stripe(void);
/* In a child of fork: counts this thread anew, at the end of a bracket that fork interrupted. */
void sa_fork_gate_repair(void);

/*
 * Brackets the instructions during which this thread's count and its depth disagree. A signal
 * handler that forks within the bracket cannot tell whether the thread is counted. Its child sets
 * the count right when the interrupted code reaches the end of the bracket. Brackets nest, as
 * handlers do.
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

/* Counts the thread in or out. A process of one thread needs no locked instruction: signal handlers
 * that run between the load and the store enter as often as they leave. */
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

/*
 * Enters the gate. Calls nest. False: the caller must not use the state of the allocator. Then a
 * fork is in progress and may be waiting for this thread, or this is a lost child, or a child of
 * vfork, which may be killed inside. Or a debugger calls a function, and this thread is inside
 * already (see `debugger`).
 */
SA_INLINE bool sa_fork_gate_enter(void) SA_ENTERS_GATE SA_NO_THREAD_SAFETY_ANALYSIS
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
    /* The depth is set last. A signal handler that allocates before that enters by itself. */
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

/* Leaves the gate, once for each sa_fork_gate_enter that returned true. */
SA_INLINE void sa_fork_gate_leave(void) SA_LEAVES_GATE SA_NO_THREAD_SAFETY_ANALYSIS
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

/* This thread is inside. Debug builds check that; clang's analysis relies on it, in functions that
 * are inside on some paths only. */
SA_INLINE void sa_fork_gate_assert_inside(void) SA_ASSERTS_INSIDE
{
    SA_DCHECK(sa_thread.gate_depth);
}

/*
 * Closes the gate for fork, and waits until no other thread is inside. Threads that fork at the
 * same time do so one after the other. Every wait is bounded, by some 10 s. So a program goes on
 * that left a slow path by longjmp, or that waits for itself in another way.
 *
 * The thread that closes the gate counts as inside: handlers of fork that run later may allocate.
 * False: this is a lost child, which has no state to protect, and the gate is not closed.
 */
bool sa_fork_gate_close(void) SA_CLOSES_GATE;
/* Opens the gate in the parent. */
void sa_fork_gate_open(void) SA_OPENS_GATE;

/* True if a fork is in progress. Work that can wait is then left for later. */
SA_INLINE bool sa_fork_gate_is_closed(void)
{
    return sa_load_seq_cst(&sa_fork_gate.closed);
}

/* Opens the gate in a child of fork. Its only thread calls this, as fork's last handler. */
void sa_fork_gate_reset(void) SA_OPENS_GATE;

#endif
