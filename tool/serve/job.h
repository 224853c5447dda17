/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs: each answer is made by a child process, with bounds on its time, memory and output, and
 * with the rights of the user who asks. A target that lies can at most spoil the answer about
 * itself. Jobs wait while as many run as may. One thread uses all of this.
 */
#ifndef SA_TOOL_SERVE_JOB_H
#define SA_TOOL_SERVE_JOB_H

#include "tool/serve/request.h"

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define SA_JOBS_RUNNING_MAX 20

/* What a job takes its time for. */
enum sa_job_class {
    SA_JOB_NUMBERS, /* metrics and pages of numbers, which are scraped */
    SA_JOB_PROFILE, /* call stacks and their names */
    SA_JOB_WATCH,   /* what is allocated within some seconds */
    SA_JOB_CLASSES
};

/* With whose rights a job reads processes. */
struct sa_serve_user {
    bool other; /* not those of the server */
    uid_t uid;
    gid_t gid;
};

struct sa_job {
    struct sa_job *next;
    struct sa_serve_request request;
    struct sa_serve_user user;
    void *owner; /* the caller's */
    enum { SA_JOB_WAITS, SA_JOB_RUNS, SA_JOB_DONE } state;
    pid_t child;
    int ends;        /* a pipe that the child holds open */
    int file;        /* the answer, or a line about the error; the caller's when it is done */
    int found;       /* a file for what the answer finds; negative: none */
    uint64_t memory; /* that the child and its answer may take, while it runs */
    double deadline; /* seconds of the monotonic clock: to be started, or to be done */
    uint64_t bytes;  /* of the answer, when it is done */
    unsigned status; /* of HTTP */
};

/* What the last answers about all processes found (answer.h), of each kind and user. */
#define SA_JOBS_KNOWN_MAX 16

struct sa_jobs_known {
    struct sa_serve_request request; /* only its kind and format count */
    struct sa_serve_user user;
    int file;
    double time; /* of the answer; 0: there is none */
};

struct sa_jobs {
    struct sa_job *first; /* in the order of their coming */
    unsigned running[SA_JOB_CLASSES];
    uint64_t unsent;                 /* bytes of answers that are done, and not freed */
    pid_t dead[SA_JOBS_RUNNING_MAX]; /* children that were killed, and not waited for yet */
    struct sa_jobs_known known[SA_JOBS_KNOWN_MAX];
};

/* Enters a job. NULL: no memory, or too many wait. */
struct sa_job *sa_job_add(struct sa_jobs *jobs, const struct sa_serve_request *request,
                          const struct sa_serve_user *user, void *owner);

/* Ends a job, whatever its state, and frees it. */
void sa_job_free(struct sa_jobs *jobs, struct sa_job *job);

/* Starts jobs that wait, and ends those whose time is over. */
void sa_jobs_run(struct sa_jobs *jobs);

/* Fills in what to wait for; returns how many, at most SA_JOBS_RUNNING_MAX. */
size_t sa_jobs_poll(const struct sa_jobs *jobs, struct pollfd *ret);

/* A job that has come to its end since the last call; NULL: there is none. */
struct sa_job *sa_jobs_done(struct sa_jobs *jobs);

#endif
