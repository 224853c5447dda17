/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads many processes, one after the other, in a child process. A process that cannot be read in
 * time is left out, and so is one at which the child ends: a target may have a page that its reader
 * waits for without end. Another child goes on behind it. After two such processes, all others of
 * their user are left out, too, so that nobody can use up the time of all.
 */
#ifndef SA_TOOL_SERVE_SWEEP_H
#define SA_TOOL_SERVE_SWEEP_H

#include "tool/reading/reading.h"

struct sa_sweep {
    /* In the child: adds to a buffer what is wanted of a process. False: it makes no sense. */
    bool (*make)(struct sa_reading *r, void *arg, struct sa_buffer *out);
    /* Takes that. False: no memory. */
    bool (*take)(pid_t pid, const char *data, size_t bytes, void *arg);
    void *arg;
    size_t unread; /* processes that were left out */
};

/* Reads all processes that run on salloc and may be read. */
bool sa_sweep(struct sa_sweep *sweep, struct sa_error *e);

#endif
