/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler of SIGSEGV, installed before the first page is made inaccessible. It reports what was
 * done to a guarded or kept block, or behind a large one in the hardened mode, and then, as for
 * every other fault, lets happen what would have happened without it: the handler that was
 * installed before runs, in the same environment (stack, mask, one shot or not), or the default
 * action.
 *
 * A program that installs a handler later replaces this one; a program in which the signal is
 * ignored never gets it.
 */
#ifndef SA_SAMPLING_GUARD_FAULT_HANDLER_H
#define SA_SAMPLING_GUARD_FAULT_HANDLER_H

#include <stdbool.h>

/* Once; repeated calls do nothing. */
void sa_fault_prepare(void);

/* The same where sa_fault_forbid was called, in a process that is about to abort: for faults of its
 * report. */
void sa_fault_prepare_last(void);

/* Whether faults are, or can be, reported: behind a filter (filter.h) only if the handler is
 * there. */
bool sa_fault_may_report(void);

/* Before the first allocation: there will be no handler. */
void sa_fault_forbid(void);

#endif
