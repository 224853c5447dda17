/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of a walk that has come to generated code (of just-in-time compilers), which nothing
 * describes. Any thread and signal handler; no lock and no memory.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_GENERATED_H
#define SA_SAMPLING_STACK_UNWIND_GENERATED_H

#include <stdbool.h>
#include <stdint.h>

struct sa_unwind_registers {
    uintptr_t pc, sp, bp;
};

/*
 * Walks on from a frame of generated code. pc[]: the `n` > 0 addresses of the walk so far, the last
 * of which is in that frame; it gets more of them, up to `max` in all. top: the stack ends there,
 * or below. own: all of the stack up to the top can be read for as long as the thread exists.
 * Returns the number of addresses in pc[].
 */
unsigned sa_unwind_generated(struct sa_unwind_registers at, uintptr_t top, bool own, uintptr_t *pc,
                             unsigned n, unsigned max);

/* Returns whether nothing describes the code before a return address: the rest of a stack above it
 * depends on what could be read. */
bool sa_unwind_is_generated(uintptr_t pc);

#endif
