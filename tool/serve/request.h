/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks for. */
#ifndef SA_TOOL_SERVE_REQUEST_H
#define SA_TOOL_SERVE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum sa_serve_kind {
    SA_SERVE_INDEX,   /* a page with the processes */
    SA_SERVE_METRICS, /* the metrics of all of them, each as a whole */
    SA_SERVE_ALL,     /* with those of size classes, CPUs and the hugepage heap */
    SA_SERVE_STATS,   /* the stats page of one */
    SA_SERVE_HEAP,    /* its heap profile */
    SA_SERVE_ALLOCS,  /* what it allocates, or has allocated */
    SA_SERVE_FLAME,   /* the page of its heap profile */
};

#define SA_SERVE_SECONDS_MAX 300

struct sa_serve_request {
    enum sa_serve_kind kind;
    bool openmetrics; /* METRICS, ALL: not in the format of Prometheus */
    pid_t pid;        /* of those that are about one process */
    double seconds;   /* ALLOCS: watch for so long; 0: since its start */
};

/* A parameter of a URL; value "": there is none. */
struct sa_serve_parameter {
    const char *name, *value;
};

#define SA_SERVE_WHY 160 /* bytes of a line about what is wrong */

/* The values of all headers Accept, which are one list. Those that do not fit are left out. */
struct sa_serve_accept {
    size_t used;
    char list[4096];
};

void sa_serve_accept_add(struct sa_serve_accept *a, const char *value);

/*
 * Understands the path of a URL and its parameters. accept: the header, or NULL. Returns the HTTP
 * status: 200, or what is wrong, and then `why` is a line about it.
 */
unsigned sa_serve_request_parse(const char *path, const struct sa_serve_parameter *parameters,
                                size_t count, const char *accept, struct sa_serve_request *ret,
                                char why[SA_SERVE_WHY]);

/*
 * The path of a request's target, which is a path, or a whole URL of http as clients of proxies
 * send it. NULL: that is none, or of another machine.
 */
const char *sa_serve_request_path(const char *target);

/* The type of an answer. */
const char *sa_serve_request_type(const struct sa_serve_request *request);

#endif
