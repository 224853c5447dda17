/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two unwinders that sa_stack_capture chooses from. Tests compare them.
 *
 * Both have the arguments of sa_stack_capture (stack.h). Both store return addresses. For code that
 * a signal interrupted, they store the interrupted address plus 1. The stored address minus 1 is
 * thus always in the function that was running.
 */
#ifndef SA_SAMPLING_STACK_UNWIND_H
#define SA_SAMPLING_STACK_UNWIND_H

#include "sampling/stack/loaded_object.h"

#include <stdbool.h>
#include <stdint.h>

/* The fast unwinder needs glibc 2.35 or later, which finds the object of an address without a
 * lock. */
#if defined(__x86_64__) && defined(__LP64__) && SA_FIND_OBJECT
#define SA_UNWIND_FAST 1
#endif

/* Walks with libgcc's unwinder, of which the shared library has a copy of its own. Returns the
 * number of addresses. It is 0 while another thread, or interrupted code, is in the first call. */
unsigned sa_unwind_libgcc(const void *frame, uintptr_t *pc, unsigned max);

#ifdef SA_UNWIND_FAST
/* Walks with the fast unwinder, in about 1/8 of libgcc's time. rbp_saved: the
 * word at frame - 16 is the value of rbp at the call, so that the walk begins there and not in this
 * function. Stores the number of addresses in *ret_count. False: the last of these frames is one
 * that only libgcc can leave. */
bool sa_unwind_fast(const void *frame, bool rbp_saved, uintptr_t *pc, unsigned max,
                    unsigned *ret_count);
#endif

#endif
