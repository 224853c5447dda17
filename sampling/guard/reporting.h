/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The making of reports of misuse. There is one report at a time, on a stack of its own. Its lines
 * go to stderr, if that still is stderr (alloc/output/stderr_file.h), to the file of `report:PATH`,
 * and to memory where a core dump shows them.
 *
 * Nothing here allocates, waits for a lock, or asks the loader under a lock. Memory that a report
 * reads may be damaged: a fault ends that part of the report, and the report continues with the
 * next part. A report that begins within a report is refused. SA_REPORTING_SECONDS after a report
 * began, no more functions are named.
 */
#ifndef SA_SAMPLING_GUARD_REPORTING_H
#define SA_SAMPLING_GUARD_REPORTING_H

#include "alloc/base/attrs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_REPORTING_SECONDS 5

/* How the program continues after a report. */
enum sa_reporting_end {
    SA_REPORTING_ABORTS,  /* by abort */
    SA_REPORTING_FAULTS,  /* with the signal of a fault */
    SA_REPORTING_SURVIVES /* as without the report */
};

/* The pattern (alloc/output/file.h) of the file that reports are appended to; NULL or empty: none.
 * Set before the first allocation. */
extern const char *sa_reporting_path SA_HIDDEN;

/*
 * Confines reports from now on to write and the system calls that map memory, because a filter may
 * kill the process for others. A confined report names modules and offsets instead of functions,
 * names no thread, and reads and writes no file.
 */
void sa_reporting_confine(void);

/* True if reports are confined: by sa_reporting_confine, behind a filter (filter.h), or in a
 * process with privileges that its user does not have. */
bool sa_reporting_confined(void);

/* Maps the stack of reports, before the first fault. Repeated calls do nothing. Without memory,
 * reports use the stack of their thread. */
void sa_reporting_prepare(void);

/* Begins a report of this thread. False: this thread reports already, another one has reported for
 * too long, or nobody could read a report that the program survives. */
bool sa_reporting_begin(enum sa_reporting_end end);

/* Writes a line outside of a report, that the program survives: to stderr, if that still is stderr,
 * else to the file of reports. */
SA_COLD void sa_reporting_warn(const char *line, size_t bytes);

/* In a child of fork: ends the report of a thread that does not exist there. */
void sa_reporting_after_fork(void);

/* The functions from here to sa_reporting_late require that this thread reports. */

/* Ends the report. */
void sa_reporting_finish(void);

/* Writes a line, with "salloc: " in front. format: as for sa_fmt_add. */
SA_COLD void sa_reporting_line(const char *format, ...);

/* Writes a complete line. The first line of a report opens the file. */
SA_COLD void sa_reporting_text(const char *line);

/* The path by which the program was started; "?": unknown. Callable from any thread. */
const char *sa_reporting_program(void);

/* Writes a line with the process and thread. */
void sa_reporting_process(void);

/* Calls f(arg) on the stack of reports. False: a fault ended the call. */
bool sa_reporting_call(void (*f)(void *arg), void *arg);

/* Captures a stack that may be damaged, as sa_stack_capture; a fault ends the capture. frame: NULL:
 * from here on. Returns the number of frames, at most `most`. */
unsigned sa_reporting_capture(const void *frame, uintptr_t *pc, unsigned max);

/* True if SA_REPORTING_SECONDS have passed since the report began. */
bool sa_reporting_late(void);

/* For the handler of SIGSEGV. context: a ucontext_t. True: a report of this thread has faulted, and
 * continues behind the call that faulted once the handler returns. */
bool sa_reporting_fault(void *context);

#endif
