/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of vfork: processes that run in the memory of their parent, and on the thread-local
 * storage of one of its threads, which the kernel lets wait until they execute a program or end.
 *
 * What goes wrong. The kernel keeps the registration of rseq from a child that shares memory. So
 * nothing updates the CPU number that the child reads, nor restarts its sequences: they would run
 * on the slab of the CPU that the parent's thread was on, while other threads of that CPU do. (With
 * a cache per thread there is no such thing: the child has the slab of a thread that waits.)
 *
 * What is done. The CPU whose number the child reads is held (cpu_closed.h) from before the child
 * exists until the parent goes on. The child's sequences then leave for the slow path, which opens
 * no CPU that is held. So do those of the other threads that come to this CPU meanwhile. libc's
 * area is not written to: it belongs to the parent's registration, which the kernel may check.
 *
 * Slow paths. The child may be killed or stopped at any instruction, and its parent goes on. So it
 * takes no lock, and is not counted at the gate (sa_fork_gate_enter): it has emergency memory, and
 * puts aside what it frees of the ordinary heap (emergency_heap.h). Both are single swaps of a
 * word. At worst a child that is killed takes along the list that it has at hand: memory, which
 * nobody finds again.
 *
 * Why the number is the one that is held. Only the kernel writes it, when the parent's thread
 * returns to its program: not while the thread waits in vfork. Between sa_vfork_begin, which reads
 * the number and holds that CPU, and the system call, the thread may migrate. The child finds that
 * out by reading the number again, which is now the one that it will read as long as it lives: it
 * then holds that CPU before it returns to the program, and lets go of the first. The child's own
 * loads follow its own stores, so it needs no fence; and the sequences of others on that CPU, which
 * have begun before it was held, go on with a slab that the child does not touch.
 *
 * The rest of the slow path's thread-local state is used as by a signal handler of the waiting
 * thread: the child leaves it as it was, unless it ends inside an allocation. That is put right by
 * sa_vfork_end. A child that is killed between two words of sa_vfork_child leaves a CPU held for
 * good, which is slow and nothing else.
 */
#ifndef SA_FORK_VFORK_H
#define SA_FORK_VFORK_H

#include "alloc/os/thread.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_VFORK_REFUSED UINT64_MAX

/* Before the system call. What sa_vfork_end is to be given, in a register, for the child uses the
 * stack; SA_VFORK_REFUSED: there are too many such children. Nests: a child may have children of
 * its own. */
uint64_t sa_vfork_begin(void);

/* First of all in the child. */
void sa_vfork_child(void);

/* In the parent, when the child is gone or could not be made. */
void sa_vfork_end(uint64_t mark);

/* Whether this thread is a child of vfork, or about to have one. */
static inline bool sa_vfork_is_child(void)
{
    return sa_thread_is_vfork_child();
}

/* In a child of fork, when all CPUs are closed: holds the CPU whose number a forked child of vfork
 * reads, lets go of others. Its memory is its own from now on: it uses locks as any process. */
void sa_vfork_after_fork(void);

#endif
