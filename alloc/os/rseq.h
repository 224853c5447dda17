/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether and how the critical sections of percpu.h can be used, and the fence that stops them.
 *
 * libc's registration is used as it is; a second area is never registered and nothing but rseq_cs
 * is ever written. Where libc has none, or the kernel cannot fence, every thread gets a slab of its
 * own and the same code runs on struct sa_thread_area.
 */
#ifndef SA_OS_RSEQ_H
#define SA_OS_RSEQ_H

#include <stdbool.h>
#include <stdint.h>

struct sa_rseq {
    bool per_cpu;       /* const after init; false: a slab per thread */
    int64_t offset;     /* const after init: area relative to the thread pointer */
    const char *reason; /* const after init: why not per CPU, NULL if it is */
    bool asked;         /* the kernel was, in sa_rseq_init */
    unsigned cpus;   /* const after init: CPU numbers are below it (at most SA_SLABS), if per_cpu */
    uint64_t fences; /* atomic, relaxed */
};

extern struct sa_rseq sa_rseq;

/* allow: false forces a slab per thread (an option). Makes two system calls: for when the library
 * is loaded, before the program can have a filter. Later calls change nothing. */
void sa_rseq_init(bool allow);

/*
 * After it returns, every critical section that began before the call has ended or will restart.
 * cpu < 0 fences all CPUs. Only where sa_rseq.per_cpu. False if the kernel refused, or must not be
 * asked (filter.h): nothing may then be assumed. A process with one thread needs no fence.
 */
bool sa_rseq_fence(int cpu);

/* Whether a fence can succeed. */
bool sa_rseq_can_fence(void);

#endif
