/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task in a child process: code that may end its process, or never end, because of what it reads.
 * The child ends with its parent and leaves no core. It has the parent's budget (budget.h) and at
 * most what its own task sets.
 */
#ifndef SA_TOOL_BASE_CHILD_H
#define SA_TOOL_BASE_CHILD_H

#include "alloc/os/buffer.h"

#include <stdbool.h>
#include <stddef.h>

struct sa_child_task {
    /* Runs in the child, and writes its answer to a descriptor. False: it has failed. */
    bool (*run)(void *arg, int fd);
    void *arg;
    double seconds;    /* that the answer may take */
    size_t answer_max; /* bytes */
};

enum sa_child_end {
    SA_CHILD_DONE,
    SA_CHILD_NONE,   /* it could not be started: `number` is the errno */
    SA_CHILD_LATE,   /* its time was over */
    SA_CHILD_KILLED, /* a signal has ended it: `number` */
    SA_CHILD_FAILED, /* it says so, its answer is too long, or there is no memory for that */
};

/* Runs a task and waits for it. Its answer is added to *ret, to be used only of one that is done.
 */
enum sa_child_end sa_child_run(const struct sa_child_task *task, struct sa_buffer *ret,
                               int *ret_number);

#endif
