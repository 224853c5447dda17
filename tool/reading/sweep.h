/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads many processes, one after the other, in a child process. A process that cannot be read in
 * time is left out, and so is one at which the child ends: a target may have a page that its reader
 * waits for without end. Another child goes on behind it. After two such processes, all others of
 * their user are left out, too, so that nobody can use up the time of all.
 */
#ifndef SA_TOOL_READING_SWEEP_H
#define SA_TOOL_READING_SWEEP_H

#include "tool/reading/sweep_cache.h"
#include "tool/reading/reading.h"

struct sa_sweep {
    /* In the child: whether a process is known not to run on salloc. NULL: none is. */
    bool (*skip)(pid_t pid, void *arg);
    /* In the child: adds to a buffer what is wanted of a process. */
    bool (*make)(struct sa_reading *r, void *arg, struct sa_buffer *out, struct sa_error *e);
    /* Takes that; or, with another code than SA_EXIT_DONE, the text of the error. Called for all
     * processes, in the order of their PIDs. False: no memory. NULL: `cache` is enough. */
    bool (*take)(pid_t pid, enum sa_exit code, const char *data, size_t bytes, void *arg);
    void *arg;
    /* What earlier sweeps of the same kind have found: processes that have not run since are not
     * read again. The sweep brings it up to date. NULL: all are read. */
    struct sa_sweep_cache *cache;
    /* With `cache`: processes on salloc that are new, were read again, or have gone. */
    size_t changed;
    size_t unread; /* processes that were left out */
};

/* Reads all processes. */
bool sa_sweep(struct sa_sweep *sweep, struct sa_error *e);

#endif
