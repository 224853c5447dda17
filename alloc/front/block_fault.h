/* SPDX-License-Identifier: Apache-2.0 */
/* The error messages for a pointer that is not the start of a block in use. No state. */
#ifndef SA_FRONT_BLOCK_FAULT_H
#define SA_FRONT_BLOCK_FAULT_H

#include "alloc/base/attrs.h"
#include "alloc/base/thread_safety.h"

/* Ends the program with a message about p, at which no block in use begins. The message says what
 * is known about the memory there. `what`: the error, as for sa_fatal. */
SA_NORETURN SA_COLD void sa_block_fault(const void *p, const char *what);

/* Makes the same report, and returns. At most one report for each stack. */
SA_COLD void sa_block_report(const void *p, const char *what) SA_OUTSIDE_GATE;

#endif
