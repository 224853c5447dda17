/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of SIGSEGV, installed before the first page is made inaccessible. It reports accesses
 * to guarded blocks, to blocks in the sample quarantine, and, in the hardened mode, behind large
 * blocks. After the report, as for every other fault, it lets happen what would have happened
 * without it. The handler that was installed before runs, in the same environment (stack, mask, one
 * shot or not); or the default action follows.
 *
 * A program that installs a handler later replaces this one. A program that ignores SIGSEGV never
 * gets it, nor does a process whose handler is that of a Java virtual machine: no block is guarded
 * there, and no sample enters the quarantine.
 */
#ifndef SA_SAMPLING_GUARD_FAULT_HANDLER_H
#define SA_SAMPLING_GUARD_FAULT_HANDLER_H

#include <stdbool.h>

/* Installs the handler. Repeated calls do nothing, and so do calls behind a filter, in a child of
 * vfork, and after sa_fault_forbid. Safe to call from any thread. */
void sa_fault_prepare(void);

/* Installs the handler even after sa_fault_forbid, in a process that is about to abort, for faults
 * of its report. Called by the thread that reports. */
void sa_fault_prepare_last(void);

/* True if faults are, or can be, reported. They cannot be beside a Java virtual machine. Behind a
 * filter (filter.h) that is so only if the handler was installed before. */
bool sa_fault_may_report(void);

/* Forbids the handler; called before the first allocation. */
void sa_fault_forbid(void);

#endif
