/* SPDX-License-Identifier: Apache-2.0 */
/* Where a thread's stack ends, without a system call. x86-64 only. */
#ifndef SA_STACK_STACK_BOUNDS_H
#define SA_STACK_STACK_BOUNDS_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes below the end of the first thread's stack in which there is nothing else. The kernel keeps
 * 128 MiB free for it, even if its size has no limit. */
#define SA_FIRST_STACK ((uintptr_t)64 << 20)

extern void *__libc_stack_end SA_WEAK;

/*
 * Returns an upper bound of the stack that contains sp. A thread has its control block above its
 * stack. The first thread's stack ends where the kernel has put it. For a stack from elsewhere
 * (coroutines, signal handlers) the bound is not tight.
 */
SA_INLINE uintptr_t sa_stack_top(uintptr_t sp)
{
    uintptr_t thread, top = UINTPTR_MAX;

    __asm__("mov %%fs:0, %0" : "=r"(thread));
    if (&__libc_stack_end && sp < (uintptr_t)__libc_stack_end)
        top = (uintptr_t)__libc_stack_end;
    return sp < thread && thread < top ? thread : top;
}

/* Returns whether an address is on the first thread's stack for certain, as is `sp` below it. A
 * program that maps memory at addresses of its own choice there could be mistaken. */
SA_INLINE bool sa_stack_first_has(uintptr_t sp, uintptr_t at)
{
    uintptr_t end = &__libc_stack_end ? (uintptr_t)__libc_stack_end : 0;

    return at >= sp && at < end && end - sp < SA_FIRST_STACK;
}

#endif
