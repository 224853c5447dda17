/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a function on another stack, through which debuggers and unwinders find the caller: the
 * call frame information leads back to the caller's stack. Calls and returns stay paired, so a
 * shadow stack of the processor agrees.
 */
#ifndef SA_OS_STACK_SWITCH_H
#define SA_OS_STACK_SWITCH_H

#include "alloc/base/attrs.h"

/*
 * Calls f(arg) on the stack that ends at `top`, a multiple of 16 (NULL: this one), after storing
 * its own stack pointer in *sp. Returns 1. A signal handler may set the stack pointer to *sp and
 * continue at sa_stack_switch_back: then the call returns 0. All callee-saved registers are on the
 * stack below *sp.
 */
int sa_stack_switch(char *top, void (*f)(void *arg), void *arg, void **sp) SA_HIDDEN;
extern const char sa_stack_switch_back[] SA_HIDDEN;

#endif
