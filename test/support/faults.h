/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that fail when a test wants them to. The test program is linked with --wrap for
 * sa_sys_mmap and sa_sys_madvise, so calls of the library to them come here first; whatever is not
 * to fail goes on to the real one. While something is to fail, only one thread may run.
 */
#ifndef SA_TEST_FAULTS_H
#define SA_TEST_FAULTS_H

#define FAULT_NEVER -1

struct test_faults {
    long mmap_after;                /* so many calls succeed, then all fail; FAULT_NEVER: none */
    long madvise_after;             /* the same */
    long mmap_calls, madvise_calls; /* so many were made, failed ones included */
};

extern struct test_faults test_faults;

/* No faults, counts of 0. */
void test_faults_clear(void);

#endif
