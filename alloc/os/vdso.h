/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the vDSO, code that the kernel maps into every process. libc's clock_gettime and
 * sched_getcpu also end there, but programs and preloaded libraries interpose them with functions
 * that allocate. Without a vDSO (vdso=0, some emulators) both are system calls. Any thread and
 * signal handler.
 */
#ifndef SA_OS_VDSO_H
#define SA_OS_VDSO_H

#include <stdint.h>
#include <time.h>

/* Finds the functions. Called once, by start-up. Until then the functions below make system
 * calls. */
void sa_vdso_init(void);

/* The time of a clock in nanoseconds. */
uint64_t sa_vdso_clock_ns(clockid_t clock);

/* Stores the CPU and the NUMA node on which the thread runs. Returns 0, or an error if the kernel
 * does not tell, or must not be asked (filter.h). */
long sa_vdso_cpu(unsigned *ret_cpu, unsigned *ret_node);

#endif
