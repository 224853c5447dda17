/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways to walk the stack that sa_stack_capture chooses from; tests compare them. Both leave out
 * frames as stack.h says, and store what lies one byte after the last byte of the call: the return address, or,
 * for code that a signal interrupted, the address after the interrupted one. So the address less one is
 * always in the function that was running.
 */
#ifndef SA_SAMPLING_UNWIND_H
#define SA_SAMPLING_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* The compiler's unwinder, linked statically. */
unsigned sa_unwind_libgcc(const void *frame, uintptr_t *pc, unsigned most);

#endif
