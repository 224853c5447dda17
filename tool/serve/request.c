/* SPDX-License-Identifier: Apache-2.0 */
/* Requests; see request.h. No state. */
#include "tool/serve/request.h"

#include "tool/base/units.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *path;
    enum sa_serve_kind kind;
    bool of_one; /* of one process */
} paths[] = {
    {"/", SA_SERVE_INDEX, false},
    {"/metrics", SA_SERVE_METRICS, false},
    {"/metrics/all", SA_SERVE_ALL, false},
    {"/stats", SA_SERVE_STATS, true},
    {"/debug/pprof/heap", SA_SERVE_HEAP, true},
    {"/debug/pprof/allocs", SA_SERVE_ALLOCS, true},
    {"/flame", SA_SERVE_FLAME, true},
};

#define PATHS (sizeof(paths) / sizeof(*paths))

static bool parse_pid(const char *text, pid_t *ret)
{
    char *end;
    long number;

    errno = 0;
    number = strtol(text, &end, 10);
    *ret = (pid_t)number;
    return *text >= '0' && *text <= '9' && !*end && !errno && number > 0 && number <= INT32_MAX;
}

static bool parse_seconds(const char *text, double *ret)
{
    return sa_units_time(text, ret) && *ret <= SA_SERVE_SECONDS_MAX;
}

unsigned sa_serve_request_parse(const char *path, const char *pid, const char *seconds,
                                const char *accept, struct sa_serve_request *ret, const char **why)
{
    size_t i = 0;

    *ret = (struct sa_serve_request){.kind = SA_SERVE_INDEX};
    *why = "";
    while (i < PATHS && strcmp(paths[i].path, path) != 0)
        i++;
    if (i == PATHS) {
        *why = "there is no such page; / has a list";
        return 404;
    }
    ret->kind = paths[i].kind;
    ret->openmetrics = accept && strstr(accept, "application/openmetrics-text");
    if (paths[i].of_one && (!pid || !parse_pid(pid, &ret->pid))) {
        *why = "name a process: ?pid=N";
        return 400;
    }
    if (seconds && ret->kind == SA_SERVE_ALLOCS && !parse_seconds(seconds, &ret->seconds)) {
        *why = "seconds: a time up to 300 s, as 30 or 1m";
        return 400;
    }
    return 200;
}

const char *sa_serve_request_type(const struct sa_serve_request *request)
{
    switch (request->kind) {
    case SA_SERVE_INDEX:
    case SA_SERVE_FLAME:
        return "text/html; charset=utf-8";
    case SA_SERVE_METRICS:
    case SA_SERVE_ALL:
        return request->openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                    : "text/plain; version=0.0.4; charset=utf-8";
    case SA_SERVE_STATS:
        return "text/plain; charset=utf-8";
    default:
        return "application/octet-stream";
    }
}
