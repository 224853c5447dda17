/* SPDX-License-Identifier: Apache-2.0 */
/* Children of vfork; see vfork.h, also for what guards the shared words. */
#include "alloc/fork/vfork.h"

#include "alloc/fork/cpu_closed.h"
#include "alloc/os/filter.h"
#include "alloc/os/rseq.h"
#include "alloc/os/sys.h"

/* The value of sa_thread.area.vfork for a child that holds no CPU. Otherwise it is the number of
 * the held CPU plus 1. */
#define NO_CPU (SA_VFORK_OWN - 1)

/* Waits for another child to release the CPU: HOLD_SLICES of 1 ms, 10 s in all, in
 * sa_vfork_begin. */
#define HOLD_SLICE_NS 1000000
#define HOLD_SLICES   10000

/* Fields of a mark, which holds members of sa_thread as they were. Bits 0 to 31 hold area.vfork. Of
 * gate_depth, 8 bits suffice. */
#define MARK_DEPTH_SHIFT    32
#define MARK_MOVING_SHIFT   40
#define MARK_SAMPLING_SHIFT 48
#define MARK_TID_KNOWN      (1ull << 56)
#define MARK_FILTERED       (1ull << 57)

/* The CPU number that this thread reads. -1: there is none, or there are no caches yet, and so no
 * thread that uses them. */
static int vfork_cpu(void)
{
    return sa_rseq.per_cpu && sa_hot.mid_limit ? sa_percpu_cpu() : -1;
}

/* Adds a hold of a CPU, and closes its entry. False: there are SA_HOLDS_MAX holds. */
static bool vfork_hold(int cpu)
{
    struct sa_slab *is = sa_load_relaxed(&sa_hot.slabs[cpu]), *held;

    do {
        held = (struct sa_slab *)(sa_slab_is_closed(is) ? (uint64_t *)is + 1 : sa_slab_closed + 1);
        if (!sa_slab_is_closed(held))
            return false;
    } while (!sa_cas_acquire(&sa_hot.slabs[cpu], &is, held));
    return true;
}

/* Releases a hold. The next slow path on that CPU that finds no hold opens the entry. */
static void vfork_let_go(int cpu)
{
    struct sa_slab *is = sa_load_relaxed(&sa_hot.slabs[cpu]);

    while (sa_slab_is_held(is) &&
           !sa_cas_release(&sa_hot.slabs[cpu], &is, (struct sa_slab *)((uint64_t *)is - 1)))
        ;
}

uint64_t sa_vfork_begin(void)
{
    int cpu = vfork_cpu();
    uint64_t mark = sa_thread.area.vfork;
    uint32_t nothing = 0;

    mark |= (uint64_t)(sa_thread.gate_depth & 0xff) << MARK_DEPTH_SHIFT;
    mark |= (uint64_t)sa_thread.gate_moving << MARK_MOVING_SHIFT;
    mark |= (uint64_t)sa_thread.sampling << MARK_SAMPLING_SHIFT;
    mark |= sa_thread.area.tid ? MARK_TID_KNOWN : 0;
    mark |= sa_thread.area.filtered ? MARK_FILTERED : 0;
    for (int i = 0; cpu >= 0 && !vfork_hold(cpu); i++) {
        if (i == HOLD_SLICES)
            return SA_VFORK_REFUSED;
        sa_sys_futex_wait(&nothing, 0, HOLD_SLICE_NS);
    }
    sa_thread.area.vfork = cpu >= 0 ? (uint32_t)cpu + 1 : NO_CPU;
    return mark;
}

__attribute__((used)) /* called by assembly: alloc/api/interposers/vfork_entry.c */
void sa_vfork_child(void)
{
    uint32_t held = sa_thread.area.vfork, nothing = 0;
    int cpu = vfork_cpu();

    if (held == NO_CPU || cpu < 0 || held == (uint32_t)cpu + 1)
        return;
    while (!vfork_hold(cpu)) /* until a child that holds this CPU ends */
        sa_sys_futex_wait(&nothing, 0, HOLD_SLICE_NS);
    sa_thread.area.vfork = (uint32_t)cpu + 1;
    vfork_let_go((int)held - 1);
}

void sa_vfork_end(uint64_t mark)
{
    uint32_t held = sa_thread.area.vfork;
    uint32_t depth = (uint32_t)(mark >> MARK_DEPTH_SHIFT) & 0xff;

    sa_thread.area.vfork = (uint32_t)mark;
    sa_thread.area.filtered = (mark & MARK_FILTERED) != 0;
    if (held != NO_CPU)
        vfork_let_go((int)held - 1);
    if (!(mark & MARK_TID_KNOWN))
        sa_thread.area.tid = 0; /* the child may have stored its own */
    /* A child that has ended inside an allocation has left these as they were then. */
    sa_thread.gate_depth = depth;
    sa_thread.gate_moving = (uint8_t)(mark >> MARK_MOVING_SHIFT);
    sa_thread.sampling = (uint8_t)(mark >> MARK_SAMPLING_SHIFT);
}

SA_FORK void sa_vfork_after_fork(void)
{
    uint32_t held = sa_thread.area.vfork & ~SA_VFORK_OWN;

    if (held)
        sa_thread.area.vfork = held | SA_VFORK_OWN;
    for (unsigned cpu = 0; sa_rseq.per_cpu && cpu < sa_rseq.cpus; cpu++)
        if (sa_slab_is_held(sa_load_relaxed(&sa_hot.slabs[cpu])))
            sa_store_relaxed(&sa_hot.slabs[cpu], &sa_slab_empty);
    if (held && held != NO_CPU)
        vfork_hold((int)held - 1);
    if (sa_thread.area.filtered) /* the memory is this process's own now */
        sa_store_relaxed(&sa_filter_known, 1);
}
