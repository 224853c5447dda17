/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the vDSO, the kernel's code in the process. libc's clock_gettime and sched_getcpu end
 * up there too, but programs and preloaded libraries interpose those with functions that allocate.
 * Without a vDSO (vdso=0, some emulators) both are system calls.
 */
#ifndef SA_OS_VDSO_H
#define SA_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* Finds the functions. Once, before there are threads; until then system calls are made. */
void sa_vdso_init(void);

uint64_t sa_vdso_clock_ns(clockid_t clock);

/* The CPU that runs the calling thread; negative if the kernel does not tell. */
int sa_vdso_cpu(void);

#endif
