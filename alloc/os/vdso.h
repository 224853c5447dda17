/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the vDSO, the kernel's code in the process. libc's clock_gettime and sched_getcpu
 * end up there too, but programs and preloaded libraries interpose those with functions that
 * allocate. Without a vDSO (vdso=0, some emulators) both are system calls.
 */
#ifndef SA_OS_VDSO_H
#define SA_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* Finds the functions. Once, before there are threads; until then system calls are made. */
void sa_vdso_init(void);

uint64_t sa_vdso_clock_ns(clockid_t clock);

/* The CPU and the NUMA node that run the calling thread. 0, or an error: the kernel does not tell,
 * or must not be asked (filter.h). */
long sa_vdso_cpu(unsigned *ret_cpu, unsigned *ret_node);

#endif
