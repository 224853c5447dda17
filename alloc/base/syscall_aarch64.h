/* SPDX-License-Identifier: Apache-2.0 */
/* System calls of aarch64; see syscall.h. The kernel preserves all registers but x0. */
#ifndef SA_BASE_SYSCALL_AARCH64_H
#define SA_BASE_SYSCALL_AARCH64_H

#include "alloc/base/attrs.h"

SA_INLINE long sa_syscall0(long number)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0");

    __asm__ volatile("svc #0" : "=r"(x0) : "r"(x8) : "cc", "memory");
    return x0;
}

SA_INLINE long sa_syscall1(long number, long a)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8) : "cc", "memory");
    return x0;
}

SA_INLINE long sa_syscall2(long number, long a, long b)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1) : "cc", "memory");
    return x0;
}

SA_INLINE long sa_syscall3(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "cc", "memory");
    return x0;
}

SA_INLINE long sa_syscall4(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;

    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "cc", "memory");
    return x0;
}

SA_INLINE long sa_syscall5(long number, long a, long b, long c, long d, long e)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "cc", "memory");
    return x0;
}

SA_INLINE long sa_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "cc", "memory");
    return x0;
}

#endif
