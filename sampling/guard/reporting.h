/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a report of misuse is made, whatever it says: one report at a time, on a stack of its own, in
 * lines that go to stderr, to the file of `report:PATH`, and to memory where a core dump shows
 * them.
 *
 * Nothing here allocates, waits for a lock or asks the loader under one. What a report reads may be
 * damaged. A fault in it ends that part of the report, and the report goes on with the next one. A
 * report that is begun within a report is refused. Naming functions ends SA_REPORTING_SECONDS after
 * the report began.
 */
#ifndef SA_SAMPLING_GUARD_REPORTING_H
#define SA_SAMPLING_GUARD_REPORTING_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_REPORTING_SECONDS 5

/* How a program goes on after a report. */
enum sa_reporting_end {
    SA_REPORTING_ABORTS,  /* by abort */
    SA_REPORTING_FAULTS,  /* with the signal of a fault */
    SA_REPORTING_SURVIVES /* as if nothing had been said */
};

/* A pattern (alloc/os/file.h) of the file that reports are appended to; NULL or empty: none. Set
 * before the first allocation. */
extern const char *sa_reporting_path SA_HIDDEN;

/*
 * From now on a report makes no system calls but write and those that map memory, as a filter may
 * kill for others. It tells modules and offsets instead of functions, and no thread, and reads and
 * writes no file.
 */
void sa_reporting_confine(void);

/* Whether that is so: asked for, behind a filter (filter.h), or in a process with privileges that
 * its user does not have. */
bool sa_reporting_confined(void);

/* Maps the stack of reports, before the first fault. Repeated calls do nothing. */
void sa_reporting_prepare(void);

/* Makes this thread the one that reports. False: it reports already, or another one takes too
 * long. */
bool sa_reporting_begin(enum sa_reporting_end end);

/* In a child of fork: who was reporting does not exist there. */
void sa_reporting_after_fork(void);
void sa_reporting_finish(void);

/* The next ones are for the thread that reports. */

/* A line, which gets "salloc: " in front. */
SA_COLD void sa_reporting_line(const char *format, ...);

/* The same for a line that is complete. The first line of a report opens the file. */
SA_COLD void sa_reporting_text(const char *line);

/* The path by which the program was started. */
const char *sa_reporting_program(void);

/* Says in which process and thread this is. */
void sa_reporting_process(void);

/* Calls f on the stack of reports. False: a fault ended it. */
bool sa_reporting_call(void (*f)(void *arg), void *arg);

/* sa_stack_capture, of a stack that may be damaged: a fault ends it. */
unsigned sa_reporting_capture(const void *frame, uintptr_t *pc, unsigned most);

/* Whether the time for names is over. */
bool sa_reporting_late(void);

/* For the handler of SIGSEGV; context: a ucontext_t. True: it was a fault of a report, which goes
 * on elsewhere. */
bool sa_reporting_fault(void *context);

#endif
