/* SPDX-License-Identifier: Apache-2.0 */
/* A hint to the processor inside a spin loop. */
#ifndef SA_OS_CPU_RELAX_H
#define SA_OS_CPU_RELAX_H

#include "alloc/base/attrs.h"

SA_INLINE void sa_cpu_relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

#endif
