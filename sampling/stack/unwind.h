/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two ways to walk the stack that sa_stack_capture chooses from; tests compare them. Both leave
 * out frames as stack.h says, and store what lies one byte after the last byte of the call: the
 * return address, or, for code that a signal interrupted, the address after the interrupted one. So
 * the address less one is always in the function that was running.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_H
#define SA_SAMPLING_STACK_UNWIND_H

#include "sampling/stack/loaded_object.h"

#include <stdbool.h>
#include <stdint.h>

/* The fast one needs glibc 2.35, which finds the object of an address without a lock. */
#if defined(__x86_64__) && defined(__LP64__) && SA_FIND_OBJECT
#define SA_UNWIND_FAST 1
#endif

/* The compiler's unwinder, linked statically. */
unsigned sa_unwind_libgcc(const void *frame, uintptr_t *pc, unsigned most);

#ifdef SA_UNWIND_FAST
/* Ours, several times faster. False: there is a frame that only libgcc can leave, it is the last
 * one given. */
bool sa_unwind_fast(const void *frame, uintptr_t *pc, unsigned most, unsigned *ret_count);
#endif

#endif
