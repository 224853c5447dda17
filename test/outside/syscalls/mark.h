/* SPDX-License-Identifier: Apache-2.0 */
/* What the tracer and the programs that it traces agree on. */
#ifndef SA_TEST_SYSCALLS_MARK_H
#define SA_TEST_SYSCALLS_MARK_H

/* A system call that there is not: the tracer lets everything succeed from here on. */
#define TRACE_MARK 5000

/* Another: its argument is written to the log, between the calls. */
#define TRACE_NOTE 5001

#endif
