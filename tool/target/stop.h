/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping all threads of a process for the time of a reading, by ptrace: no signal reaches it, and
 * its parent is told nothing. It goes on if this command ends for any reason.
 */
#ifndef SA_TOOL_TARGET_STOP_H
#define SA_TOOL_TARGET_STOP_H

#include "tool/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct sa_target_stop {
    pid_t pid;
    bool told;      /* stderr says what is waited for */
    pid_t *threads; /* that are stopped */
    size_t count, cap;
    size_t ended; /* threads that the kernel lists, as it does the first one, though they ended */
};

/* Waits until each thread has stopped. If that takes longer than a second, stderr says for what. */
bool sa_stop_begin(struct sa_target_stop *stop, pid_t pid, struct sa_error *e);

/* Also of one that has not begun, if it is all zero. */
void sa_stop_end(struct sa_target_stop *stop);

#endif
