/* SPDX-License-Identifier: Apache-2.0 */
/* The control socket of a process (doc/control.md), which has one with the option control:on. */
#ifndef SA_TOOL_TARGET_CONTROL_CLIENT_H
#define SA_TOOL_TARGET_CONTROL_CLIENT_H

#include "tool/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A line of the protocol, with its newline. */
#define SA_CONTROL_LINE 1280

struct sa_control {
    int fd; /* -1: not connected */
    pid_t pid;
};

/* Connects to the process, and makes sure that it is the one that answers. */
bool sa_control_open(struct sa_control *control, pid_t pid, struct sa_error *e);
void sa_control_close(struct sa_control *control);

/* Sends a request, and stores what the answer has behind "ok ": a string of less than
 * SA_CONTROL_LINE. False: the process refuses it, or does not answer within 5 seconds. */
__attribute__((format(printf, 4, 5))) bool
sa_control_ask(struct sa_control *control, char *ret, struct sa_error *e, const char *format, ...);

#endif
