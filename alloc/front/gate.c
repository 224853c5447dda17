/* SPDX-License-Identifier: Apache-2.0 */
/* The gate between slow paths and fork; see gate.h. */
#include "alloc/front/gate.h"

#include "alloc/os/cpu_relax.h"
#include "alloc/os/percpu.h"
#include "alloc/os/sys.h"

/* How long a thread waits for a fork before it goes on without the allocator's state. */
#define GATE_WAIT_SLICE_NS 1000000
#define GATE_WAIT_SLICES   50

/*
 * How long fork waits for the others. They cannot need long unless they are not scheduled. But if this
 * thread is itself inside (it forks in a signal handler that interrupted a slow path), the others may
 * wait for a lock that it holds.
 */
#define GATE_CLOSE_SPINS      1000
#define GATE_CLOSE_SLICE_NS   50000
#define GATE_CLOSE_SLICES     100000 /* 10 s or more, as a slice is at least a tick of the clock */
#define GATE_CLOSE_SLICES_OWN 2000
#define GATE_MOVING_SLICES    20

struct sa_gate sa_gate;

unsigned sa_gate_stripe(void)
{
    return (unsigned)sa_percpu_cpu() % SA_GATE_STRIPES;
}

bool sa_gate_enter_closed(unsigned stripe)
{
    for (int i = 0; i < GATE_WAIT_SLICES; i++) {
        sa_sub_release(&sa_gate.stripe[stripe].inside, 1);
        sa_sys_futex_wait(&sa_gate.closed, 1, GATE_WAIT_SLICE_NS);
        sa_add_seq_cst(&sa_gate.stripe[stripe].inside, 1);
        if (!sa_load_seq_cst(&sa_gate.closed))
            return true;
    }
    sa_sub_release(&sa_gate.stripe[stripe].inside, 1);
    return false;
}

/* Whether nobody but this thread, which may itself be inside, is. */
static bool gate_alone(bool count_moving)
{
    uint32_t inside = 0, own = sa_thread.gate_depth ? 1 : 0;

    for (unsigned i = 0; i < SA_GATE_STRIPES; i++)
        inside += sa_load_seq_cst(&sa_gate.stripe[i].inside);
    /* fork in a signal handler may have interrupted a slow path of this thread. */
    return inside == own || (count_moving && sa_thread.gate_moving && inside == 1);
}

/* How many slices are worth waiting. */
static int gate_patience(void)
{
    return sa_thread.gate_depth || sa_thread.gate_moving ? GATE_CLOSE_SLICES_OWN
                                                         : GATE_CLOSE_SLICES;
}

/* One fork at a time. Not a futex lock, because its holder changes hands by fork, and to wait for a
 * bounded time. */
static void gate_lock(void)
{
    for (int i = gate_patience() / 20; sa_xchg_acquire(&sa_gate.forking, 1) && i > 0; i--)
        sa_sys_futex_wait(&sa_gate.forking, 1, GATE_CLOSE_SLICE_NS * 20);
}

void sa_gate_close(void)
{
    uint32_t never = 0;
    int patience = gate_patience();

    gate_lock();
    sa_store_seq_cst(&sa_gate.closed, 1);
    for (int i = 0; i < GATE_CLOSE_SPINS && !gate_alone(false); i++)
        sa_cpu_relax();
    for (int i = 0; i < patience && !gate_alone(i > GATE_MOVING_SLICES); i++)
        sa_sys_futex_wait(&never, 0, GATE_CLOSE_SLICE_NS);
    sa_thread.gate_depth++; /* not counted: this thread passes */
}

void sa_gate_open(void)
{
    sa_thread.gate_depth--;
    sa_store_seq_cst(&sa_gate.closed, 0);
    sa_sys_futex_wake(&sa_gate.closed, INT32_MAX);
    sa_store_release(&sa_gate.forking, 0);
    sa_sys_futex_wake(&sa_gate.forking, 1);
}

void sa_gate_reset(void)
{
    sa_thread.gate_depth--;
    for (unsigned i = 0; i < SA_GATE_STRIPES; i++)
        sa_store_relaxed(&sa_gate.stripe[i].inside, 0);
    if (sa_thread.gate_depth)
        sa_store_relaxed(&sa_gate.stripe[sa_thread.gate_stripe].inside, 1);
    sa_thread.gate_broken = sa_thread.gate_moving != 0;
    sa_store_relaxed(&sa_gate.forking, 0);
    sa_store_seq_cst(&sa_gate.closed, 0);
}

void sa_gate_repair(void)
{
    sa_thread.gate_broken = 0;
    for (unsigned i = 0; i < SA_GATE_STRIPES; i++)
        sa_store_relaxed(&sa_gate.stripe[i].inside, 0);
    if (sa_thread.gate_depth)
        sa_store_seq_cst(&sa_gate.stripe[sa_thread.gate_stripe].inside, 1);
}
