/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether and how the critical sections of percpu.h can be used, and the fence that restarts them.
 *
 * salloc uses the registration of libc, never registers a second area, and writes nothing to libc's
 * but rseq_cs. If libc has no registration, or the kernel cannot fence, every thread gets a slab of
 * its own, and the same sequences work on struct sa_thread_area.
 */
#ifndef SA_OS_RSEQ_H
#define SA_OS_RSEQ_H

#include "alloc/os/sys.h"

#include <stdbool.h>
#include <stdint.h>

/* The CPUs that the process was allowed to use when the library was loaded; none: not known. Const
 * after init. */
extern struct sa_sys_cpus sa_rseq_process_cpus;

struct sa_rseq {
    bool per_cpu;       /* const after init; false: every thread has a slab */
    int64_t offset;     /* const after init: the area's offset from the thread pointer */
    const char *reason; /* const after init: why per_cpu is false; NULL: it is true */
    bool asked;         /* sa_rseq_init has run; under INIT */
    unsigned cpus;      /* const after init, if per_cpu: CPU numbers are below it, and it is at most
                           SA_SLABS */
    uint64_t fences;    /* fences since the start; atomic, relaxed */
};

extern struct sa_rseq sa_rseq;

/*
 * Finds out what can be used, by two system calls. Called when the library is loaded, before the
 * program can have installed a filter. Later calls do nothing. allow: false forces a slab for every
 * thread.
 */
void sa_rseq_init(bool allow);

/*
 * Fences a CPU; cpu < 0: all. When it returns true, every critical section on that CPU that had
 * begun before the call has ended or will restart. False: the kernel refused, or must not be asked
 * (filter.h), and nothing is known. A process with one thread needs no fence. Requires
 * sa_rseq.per_cpu.
 */
bool sa_rseq_fence(int cpu);

/* Whether a fence can succeed. */
bool sa_rseq_can_fence(void);

#endif
