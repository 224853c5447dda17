/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task in a child process: code that may end its process, or never end, because of what it reads.
 * The child ends with its parent and leaves no core. It has the parent's budget (budget.h) and the
 * limits of its task.
 */
#ifndef SA_TOOL_BASE_CHILD_H
#define SA_TOOL_BASE_CHILD_H

#include "alloc/os/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sa_child_task {
    /* Runs in the child, and writes its answer to a descriptor. False: it has failed. */
    bool (*run)(void *arg, int fd);
    void *arg;
    /* Of sa_child_run. */
    double seconds;    /* that the answer may take */
    size_t answer_max; /* bytes */
    /* Limits of the child, besides those of its parent; 0: none. */
    unsigned cpu_seconds;
    uint64_t memory; /* bytes that it may map besides what is mapped */
    uint64_t file;   /* bytes of a file that it writes */
};

struct sa_child {
    pid_t pid;
    int fd; /* what the child writes; its end comes when the child, and what it started, has ended
             */
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

/* The same in steps. Starts a task; returns 0, or an errno. The caller closes the descriptor. */
int sa_child_start(const struct sa_child_task *task, struct sa_child *ret);

/* Reads what a child has written, at most so many bytes, as soon as there is something until a
 * moment of sa_time_seconds. 0: the end. Negative: an errno, -ETIME at that moment. */
ssize_t sa_child_read(int fd, void *data, size_t bytes, double end);

/* Kills a child that has not ended, and waits for it. Returns its wait status. */
int sa_child_end(pid_t pid, bool kill_it);

#endif
