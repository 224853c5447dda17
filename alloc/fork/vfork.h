/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of vfork: processes that run in the memory of their parent, and on the thread-local
 * storage of one of its threads. The kernel suspends that thread until the child executes a program
 * or ends.
 *
 * The problem. The kernel does not inherit the rseq registration of a thread to a child that shares
 * memory. So nothing updates the CPU number that the child reads, and nothing restarts its critical
 * sections. They would run on the slab of the CPU that the parent's thread was on, at the same time
 * as other threads of that CPU. (Without rseq each thread has a slab of its own, and the child has
 * that of the suspended thread: no problem.)
 *
 * The solution. The CPU whose number the child reads is held (cpu_closed.h) from before the child
 * exists until the parent continues. The child's critical sections then leave for the slow path,
 * which does not open a CPU that is held. So do the critical sections of other threads that run on
 * this CPU meanwhile. libc's rseq area is not written to: it belongs to the parent's registration,
 * which the kernel may check.
 *
 * Slow paths. The child may be killed or stopped at any instruction, and its parent continues. So
 * the child takes no lock, and the gate refuses it (sa_fork_gate_enter). It allocates from the
 * emergency heap, and puts aside what it frees of the ordinary heap (emergency_heap.h). Both change
 * one word atomically. At worst, a child that is killed loses the blocks of the list that it has
 * taken.
 *
 * Why the number that the child reads is the one that is held. Only the kernel writes the number,
 * when the parent's thread returns to user space, and a suspended thread does not. But the thread
 * may migrate between sa_vfork_begin, which reads the number and holds that CPU, and the system
 * call. So the child reads the number again; from now on it does not change. If it differs, the
 * child holds that CPU before it returns to the program, and then releases the first one. The child
 * needs no fence, because its own loads follow its own stores. Critical sections of other threads
 * on that CPU that began before the hold go on with a slab that the child does not use.
 *
 * Thread-local state of slow paths. The child uses it as a signal handler of the suspended thread
 * would, and leaves it as it was, unless it ends inside an allocation. sa_vfork_end restores it. A
 * child that is killed between two instructions of sa_vfork_child leaves a CPU held for good, which
 * makes that CPU slow and has no other effect.
 *
 * Shared words: the entries of sa_hot.slabs (cpu_closed.h). The fields of sa_thread.area are
 * written by this thread and by its child, which never run at the same time.
 */
#ifndef SA_FORK_VFORK_H
#define SA_FORK_VFORK_H

#include "alloc/os/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_VFORK_REFUSED UINT64_MAX

/* Prepares for a child; called before the system call. Returns a mark for sa_vfork_end, which the
 * caller keeps in a register, because the child uses the same stack. SA_VFORK_REFUSED: SA_HOLDS_MAX
 * children hold the CPU. Calls nest: a child may have children of its own. */
uint64_t sa_vfork_begin(void);

/* Called by the child before anything else. */
void sa_vfork_child(void);

/* Called by the parent when the child is gone or could not be made. */
void sa_vfork_end(uint64_t mark);

/* True if this thread is a child of vfork, or about to have one. */
static inline bool sa_vfork_is_child(void)
{
    return sa_thread_is_vfork_child();
}

/* Called in a child of fork, when all CPUs are closed. Releases all holds but one: a child of vfork
 * that has forked still reads an old CPU number, and that CPU stays held. The memory of this
 * process is its own, so it uses locks like any other. */
void sa_vfork_after_fork(void);

#endif
