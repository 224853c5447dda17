/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls as single instructions. Programs and preloaded libraries interpose libc's wrappers,
 * syscall() included, by functions that allocate. An allocator that called a wrapper would then
 * recurse or wait for itself. No wrapper is called here, and no symbol is looked up.
 *
 *   long sa_syscall(number, ...)    0 to 6 arguments, each converted to long
 *
 * The result is the kernel's: a value, or a negative errno between -4095 and -1. errno is neither
 * read nor written. The compiler assumes that the call reads and writes memory. The calls are no
 * cancellation points. Async-signal-safe, and usable before libc is initialised. No state.
 */
#ifndef SA_BASE_SYSCALL_H
#define SA_BASE_SYSCALL_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#include "alloc/base/syscall_x86_64.h"
#elif defined(__aarch64__)
#include "alloc/base/syscall_aarch64.h"
#else
#error "no system calls for this architecture"
#endif

#define SA_SYSCALL_ERRORS 4095 /* the kernel's MAX_ERRNO */

/* True if a result is an error. */
SA_INLINE bool sa_syscall_failed(long result)
{
    return (unsigned long)result > -(SA_SYSCALL_ERRORS + 1ul);
}

#define SA_SYSCALL_0(n)             sa_syscall0(n)
#define SA_SYSCALL_1(n, a)          sa_syscall1(n, (long)(a))
#define SA_SYSCALL_2(n, a, b)       sa_syscall2(n, (long)(a), (long)(b))
#define SA_SYSCALL_3(n, a, b, c)    sa_syscall3(n, (long)(a), (long)(b), (long)(c))
#define SA_SYSCALL_4(n, a, b, c, d) sa_syscall4(n, (long)(a), (long)(b), (long)(c), (long)(d))
#define SA_SYSCALL_5(n, a, b, c, d, e)                                                             \
    sa_syscall5(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
#define SA_SYSCALL_6(n, a, b, c, d, e, f)                                                          \
    sa_syscall6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

#define SA_SYSCALL_PICK(n, a, b, c, d, e, f, which, ...) SA_SYSCALL_##which
#define sa_syscall(...)                                                                            \
    SA_SYSCALL_PICK(__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0, 0)                                           \
    (__VA_ARGS__)

#endif
