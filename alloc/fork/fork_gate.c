/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fork gate; see fork_gate.h, which also says what guards each shared word.
 *
 * The lock `forking` is held by a thread that forks, from before the gate closes until it opens,
 * and by the thread that maps the page of the open word. clang's analysis does not know this lock:
 * one handler of fork acquires it, and another one releases it, in two processes.
 */
#include "alloc/fork/fork_gate.h"

#include "alloc/base/bits.h"
#include "alloc/base/layout.h"
#include "alloc/os/cpu_relax.h"
#include "alloc/os/filter.h"
#include "alloc/hot/hot.h"
#include "alloc/os/sys.h"
#include "alloc/os/vm.h"

#include <sys/mman.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* How long a thread waits at a closed gate before it goes on without the allocator's state: 50
 * ms. */
#define GATE_WAIT_SLICE_NS 1000000
#define GATE_WAIT_SLICES   50

/*
 * How long fork waits for other threads to leave. They need long only if they are not scheduled.
 * But if this thread is itself inside (it forks in a signal handler that has interrupted a slow
 * path), the others may wait for a lock that it holds. From GATE_MOVING_SLICES on, a count of 1 may
 * be this thread's own, see gate_is_empty.
 */
#define GATE_CLOSE_SPINS    1000
#define GATE_CLOSE_SLICE_NS 50000
/* 5 s; in practice about 10 s, as a sleep takes longer than asked for */
#define GATE_CLOSE_SLICES 100000
/* 0.1 s, likewise, where this thread is itself inside. */
#define GATE_CLOSE_SLICES_OWN 2000
#define GATE_MOVING_SLICES    20

/* How often threads of a child look whether it is repaired. */
#define GATE_REPAIR_SLICE_NS 1000000

/* The first open word: 0, so that the first slow path looks; never written. */
static char nobody_asked;

SA_LAYOUT_USED struct sa_fork_gate sa_fork_gate;
SA_START_DATA char *sa_fork_gate_open_word = &nobody_asked;

/* Set by start-up, constant afterwards. */
static void (*gate_child)(bool lost);

/* Serves where the kernel has no page that it clears in children. Unannounced children are not
 * noticed then. */
static struct sa_fork_gate_page gate_plain_page;

unsigned sa_fork_gate_stripe(void)
{
    return (unsigned)sa_percpu_cpu() % SA_FORK_GATE_STRIPES;
}

SA_START_CODE void sa_fork_gate_init(void (*child)(bool lost))
{
    gate_child = child;
#ifdef SA_SINGLE_THREADED_WORD
    if (sa_single_threaded() && !sa_load_relaxed(&sa_fork_gate.page))
        sa_store_relaxed(&sa_fork_gate_open_word, &SA_SINGLE_THREADED_WORD);
#endif
}

/* Maps the page that children find cleared. */
static struct sa_fork_gate_page *gate_map_page(void)
{
    size_t bytes = sa_max(sa_vm.page_bytes, 4096);
    struct sa_fork_gate_page *page = sa_filtered() ? NULL : sa_vm_map(NULL, bytes, "salloc:gate");

    if (page && sa_sys_madvise(page, bytes, MADV_WIPEONFORK) == 0)
        return page;
    if (page)
        sa_vm_unmap(page, bytes);
    return &gate_plain_page;
}

/* Publishes the page of the open word. It holds the lock `forking`, so that no thread closes the
 * gate meanwhile. If a fork is in progress, a later slow path publishes the page. */
static void gate_make_page(void)
{
    struct sa_fork_gate_page *page;

    if (sa_xchg_acquire(&sa_fork_gate.forking, 1))
        return;
    if (!sa_load_relaxed(&sa_fork_gate.page)) {
        page = gate_map_page();
        page->alive = page->open = 1;
        sa_store_release(&sa_fork_gate.page, page);
        sa_store_release(&sa_fork_gate_open_word, &page->open);
    }
    sa_store_release(&sa_fork_gate.forking, 0);
    sa_sys_futex_wake(&sa_fork_gate.forking, 1);
}

/* Repairs an unannounced child. The calling thread is counted `own` times, on the stripe. */
static void gate_repair_child(struct sa_fork_gate_page *page, unsigned own, unsigned stripe)
{
    uint32_t inside = 0;
    bool lost;

    for (unsigned i = 0; i < SA_FORK_GATE_STRIPES; i++)
        inside += sa_load_relaxed(&sa_fork_gate.stripe[i].inside);
    /* A thread that was forking had closed the gate, and was not counted. */
    lost = sa_fork_gate_is_lost() || sa_load_relaxed(&sa_fork_gate.closed) || inside != own;
    for (unsigned i = 0; i < SA_FORK_GATE_STRIPES; i++)
        sa_store_relaxed(&sa_fork_gate.stripe[i].inside, 0);
    if (own)
        sa_store_relaxed(&sa_fork_gate.stripe[stripe].inside, own);
    sa_store_relaxed(&sa_fork_gate.lost, lost);
    sa_store_relaxed(&sa_fork_gate.closed, 0);
    sa_store_relaxed(&sa_fork_gate.forking, 0);
    if (gate_child)
        gate_child(lost);
    sa_store_seq_cst(&page->open, (char)!lost);
    sa_store_release(&page->alive, 1);
    sa_sys_futex_wake(&page->alive, INT32_MAX);
}

/* The open word is 0. Publishes the page if the process has got more threads, and repairs an
 * unannounced child. counted: this thread is counted on the stripe. False: the child is lost. */
SA_RARE static bool gate_look(unsigned stripe, bool counted)
{
    struct sa_fork_gate_page *page = sa_load_acquire(&sa_fork_gate.page);
    unsigned own = (sa_thread.gate_depth ? 1 : 0) + counted;

    if (!page && !sa_single_threaded()) {
        gate_make_page();
    } else if (page && !sa_load_acquire(&page->alive)) {
        /* In fork's child, `alive` is 0 until fork's last handler. Threads that were made by
         * handlers before that one wait for it here. The forking thread itself does not: its depth
         * is not 0. */
        for (int i = 0; i < GATE_WAIT_SLICES && !sa_thread.gate_depth &&
                        sa_load_acquire(&sa_fork_gate.closed) && !sa_load_acquire(&page->alive);
             i++)
            sa_sys_futex_wait(&page->alive, 0, GATE_WAIT_SLICE_NS);
        if (sa_load_acquire(&page->alive))
            return !sa_fork_gate_is_lost();
        if (!sa_xchg_acquire(&page->repairing, 1))
            gate_repair_child(page, own, stripe);
        while (!sa_load_acquire(&page->alive)) /* another thread of the child repairs it */
            sa_sys_futex_wait(&page->alive, 0, GATE_REPAIR_SLICE_NS);
    }
    return !sa_fork_gate_is_lost();
}

/* A child of vfork may have forked without fork's handlers. Its child has memory of its own and is
 * repaired as any unannounced child; then it is refused no more. */
SA_RARE bool sa_fork_gate_refuses_child(void)
{
    struct sa_fork_gate_page *page = sa_load_acquire(&sa_fork_gate.page);

    if (page && !sa_load_acquire(&page->alive) && !sa_thread.gate_depth)
        gate_look(sa_fork_gate_stripe(), false);
    return sa_thread_is_vfork_child();
}

/* Runs before this thread counts itself, because the thread that repairs a child must not find
 * others counted. */
SA_RARE void sa_fork_gate_look(unsigned stripe)
{
    gate_look(stripe, false);
}

SA_RARE bool sa_fork_gate_enter_closed(unsigned stripe)
{
    if (SA_UNLIKELY(!gate_look(stripe, true))) {
        sa_sub_release(&sa_fork_gate.stripe[stripe].inside, 1);
        return false;
    }
    if (!sa_load_seq_cst(&sa_fork_gate.closed))
        return true;
    for (int i = 0; i < GATE_WAIT_SLICES; i++) {
        sa_sub_release(&sa_fork_gate.stripe[stripe].inside, 1);
        sa_sys_futex_wait(&sa_fork_gate.closed, 1, GATE_WAIT_SLICE_NS);
        sa_add_seq_cst(&sa_fork_gate.stripe[stripe].inside, 1);
        if (!sa_load_seq_cst(&sa_fork_gate.closed))
            return true;
    }
    sa_sub_release(&sa_fork_gate.stripe[stripe].inside, 1);
    return false;
}

/* True if no thread is inside but this one, which may itself be inside. */
static bool gate_is_empty(bool count_moving)
{
    uint32_t inside = 0, own = sa_thread.gate_depth ? 1 : 0;

    for (unsigned i = 0; i < SA_FORK_GATE_STRIPES; i++)
        inside += sa_load_seq_cst(&sa_fork_gate.stripe[i].inside);
    /* fork in a signal handler may have interrupted this thread in a bracket. */
    return inside == own || (count_moving && sa_thread.gate_moving && inside == 1);
}

/* The number of slices that this thread waits at most. */
static int gate_patience(void)
{
    return sa_thread.gate_depth || sa_thread.gate_moving ? GATE_CLOSE_SLICES_OWN
                                                         : GATE_CLOSE_SLICES;
}

/* Acquires the lock `forking`: one fork at a time. It is no futex lock, because its holder
 * continues in two processes, and the wait is bounded. After the bound the caller goes on as if it
 * had the lock. */
static void gate_lock(void)
{
    for (int i = gate_patience() / 20; sa_xchg_acquire(&sa_fork_gate.forking, 1) && i > 0; i--)
        sa_sys_futex_wait(&sa_fork_gate.forking, 1, GATE_CLOSE_SLICE_NS * 20);
}

/* Sets the open word. Without a page there are no other threads. */
static void gate_tell(bool open)
{
    struct sa_fork_gate_page *page = sa_load_acquire(&sa_fork_gate.page);

    if (page)
        sa_store_seq_cst(&page->open, (char)open);
}

SA_RARE bool sa_fork_gate_close(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    uint32_t never = 0;
    int patience = gate_patience();

    /* Not if this thread has closed the gate: a handler of fork forks itself, before the child of
     * the first fork is announced. */
    if (!(sa_thread.gate_depth && sa_load_acquire(&sa_fork_gate.closed)) &&
        !gate_look(sa_thread.gate_stripe, false))
        return false;
    gate_lock();
    sa_store_seq_cst(&sa_fork_gate.closed, 1);
    gate_tell(false);
    for (int i = 0; i < GATE_CLOSE_SPINS && !gate_is_empty(false); i++)
        sa_cpu_relax();
    for (int i = 0; i < patience && !gate_is_empty(i > GATE_MOVING_SLICES); i++)
        sa_sys_futex_wait(&never, 0, GATE_CLOSE_SLICE_NS);
    sa_thread.gate_depth++; /* not counted: this thread passes the closed gate */
    return true;
}

SA_RARE void sa_fork_gate_open(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    sa_thread.gate_depth--;
    sa_store_seq_cst(&sa_fork_gate.closed, 0);
    gate_tell(true);
    sa_sys_futex_wake(&sa_fork_gate.closed, INT32_MAX);
    sa_store_release(&sa_fork_gate.forking, 0);
    sa_sys_futex_wake(&sa_fork_gate.forking, 1);
}

SA_FORK void sa_fork_gate_reset(void) SA_NO_THREAD_SAFETY_ANALYSIS
{
    sa_thread.gate_depth--;
    for (unsigned i = 0; i < SA_FORK_GATE_STRIPES; i++)
        sa_store_changed(&sa_fork_gate.stripe[i].inside, 0);
    if (sa_thread.gate_depth)
        sa_store_relaxed(&sa_fork_gate.stripe[sa_thread.gate_stripe].inside, 1);
    sa_thread.gate_broken = sa_thread.gate_moving != 0;
    sa_store_relaxed(&sa_fork_gate.forking, 0);
    sa_store_seq_cst(&sa_fork_gate.closed, 0);
    if (sa_fork_gate.page)
        sa_store_release(&sa_fork_gate.page->alive, 1);
    gate_tell(true);
    if (sa_fork_gate.page)
        sa_sys_futex_wake(&sa_fork_gate.page->alive, INT32_MAX);
}

SA_RARE void sa_fork_gate_repair(void)
{
    sa_thread.gate_broken = 0;
    for (unsigned i = 0; i < SA_FORK_GATE_STRIPES; i++)
        sa_store_relaxed(&sa_fork_gate.stripe[i].inside, 0);
    if (sa_thread.gate_depth)
        sa_store_seq_cst(&sa_fork_gate.stripe[sa_thread.gate_stripe].inside, 1);
}
