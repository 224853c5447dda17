/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of the control socket, and the trace that one of them starts. doc/control.md lists
 * them. All functions belong to the thread of the socket, but for sa_control_forget_trace.
 */
#ifndef SA_API_CONTROL_CONTROL_REQUESTS_H
#define SA_API_CONTROL_CONTROL_REQUESTS_H

#include "alloc/base/fmt.h"

#include <stdbool.h>
#include <stdint.h>

#define SA_CONTROL_LINE_BYTES 1280 /* a path of an option, and what is around it */

/* Answers one line without its newline, which the call may change. */
void sa_control_answer(char *line, struct sa_fmt *f);

/* Stops a trace whose time is over, or (now) any. */
void sa_control_trace_look(bool now);

/* In a child that no fork handler has announced: the next slow path stops the child's copy of the
 * parent's trace. Callable inside the fork gate. */
void sa_control_forget_trace(void);

/* Reads a number up to `most`, and advances *at behind it and a space. False: there is none. */
bool sa_control_number(char **at, uint64_t most, uint64_t *ret);

#endif
