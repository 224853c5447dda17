/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls of the library's that fail when a test wants them to: faults.c has a filter send a
 * signal for each.
 */
#ifndef SA_TEST_OUTSIDE_FAULTS_H
#define SA_TEST_OUTSIDE_FAULTS_H

#define FAULT_NEVER (-1)

/* A kind of call: so many succeed, then as many fail as are told. */
struct fault {
    long number;   /* SYS_mmap, ... */
    long after;    /* calls that still succeed; FAULT_NEVER: all */
    long failures; /* calls that fail then; FAULT_NEVER: all */
    int error;
    long calls; /* made so far, failed ones included */
    long failed;
};

enum {
    FAULT_MMAP,
    FAULT_MREMAP,
    FAULT_MADVISE,
    FAULT_MUNMAP,
    FAULT_MEMBARRIER,
    FAULT_MPROTECT,
    FAULT_KINDS
};

/* Written by one thread while no other allocates. */
extern struct fault faults[FAULT_KINDS];

/* Whether an mremap that fails has removed the mapping at its target before, as the kernel may. */
extern int faults_mremap_unmaps;

/* No faults, counts of 0. */
void faults_clear(void);

#endif
