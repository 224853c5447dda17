/* SPDX-License-Identifier: Apache-2.0 */
/* System calls of x86-64; see syscall.h. The kernel overwrites rcx and r11. */
#ifndef SA_BASE_SYSCALL_X86_64_H
#define SA_BASE_SYSCALL_X86_64_H

#include "alloc/base/attrs.h"

SA_INLINE long sa_syscall0(long number)
{
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(number) : "rcx", "r11", "cc", "memory");
    return result;
}

SA_INLINE long sa_syscall1(long number, long a)
{
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a) : "rcx", "r11", "cc", "memory");
    return result;
}

SA_INLINE long sa_syscall2(long number, long a, long b)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

SA_INLINE long sa_syscall3(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

SA_INLINE long sa_syscall4(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

SA_INLINE long sa_syscall5(long number, long a, long b, long c, long d, long e)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

SA_INLINE long sa_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "cc", "memory");
    return result;
}

#endif
