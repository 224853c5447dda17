/* SPDX-License-Identifier: Apache-2.0 */
/* Requests; see request.h. No state. */
#include "tool/serve/request.h"

#include "alloc/base/utf8.h"
#include "tool/base/units.h"
#include "tool/serve/listen.h"

#include <stdint.h>
#include <stdio.h>
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
    uint64_t number;
    bool fine = sa_units_number(text, INT32_MAX, &number) && number;

    *ret = fine ? (pid_t)number : 0;
    return fine;
}

static bool parse_seconds(const char *text, double *ret)
{
    return sa_units_time(text, ret) && *ret <= SA_SERVE_SECONDS_MAX;
}

/* --- Accept --- */

void sa_serve_accept_add(struct sa_serve_accept *a, const char *value)
{
    size_t bytes = strlen(value);

    if (bytes + 1 >= sizeof(a->list) - a->used)
        return;
    if (a->used)
        a->list[a->used++] = ',';
    memcpy(a->list + a->used, value, bytes + 1);
    a->used += bytes;
}

#define Q_MAX 1000 /* a weight of 1 */

static const char openmetrics[] = "application/openmetrics-text";

/* A media range of the header: its type, and how much it is wanted. */
struct range {
    const char *type;
    size_t length;
    int q;
    bool other; /* a version of OpenMetrics that is not written */
};

static bool has_name(const char *at, const char *name, const char **ret_value)
{
    size_t n = strlen(name);

    at += strspn(at, " \t");
    *ret_value = at + n;
    return strncasecmp(at, name, n) == 0;
}

/* Reads the parameters of a range, up to its end. */
static const char *read_parameters(const char *at, struct range *ret)
{
    const char *value;
    double q;

    while (*at == ';') {
        at++;
        if (has_name(at, "q=", &value)) {
            q = strtod(value, NULL);
            ret->q = q >= 1 ? Q_MAX : q > 0 ? (int)(q * Q_MAX) : 0;
        } else if (has_name(at, "version=", &value)) {
            ret->other = strspn(value, "\"1.0") < strcspn(value, ";, \t");
        }
        at += strcspn(at, ";,");
    }
    return at;
}

/* How much a type is wanted, by the range that names it best; 0: not at all. */
static int weight(const char *accept, const char *type)
{
    size_t whole = strlen(type), group = (size_t)(strchr(type, '/') - type) + 1, best = 0;
    int q = 0;

    for (const char *at = accept; *at; at += *at == ',') {
        struct range r = {.q = Q_MAX};
        size_t fits = 0;

        at += strspn(at, " \t");
        r.type = at;
        r.length = strcspn(at, ";, \t");
        at = read_parameters(at + r.length + strspn(at + r.length, " \t"), &r);
        r.other = r.other && strcmp(type, openmetrics) == 0;
        if (r.length == whole && strncasecmp(r.type, type, whole) == 0 && !r.other)
            fits = whole;
        else if (r.length == group + 1 && r.type[group] == '*' &&
                 strncasecmp(r.type, type, group) == 0)
            fits = group;
        else if (r.length == 3 && strncmp(r.type, "*/*", 3) == 0)
            fits = 1;
        if (fits > best || (fits && fits == best && r.q > q)) {
            q = r.q;
            best = fits;
        }
        at += strcspn(at, ",");
    }
    return q;
}

/* Plain text is what a client gets that does not say. */
static bool wants_openmetrics(const char *accept)
{
    return accept && strcasestr(accept, openmetrics) && weight(accept, openmetrics) > 0 &&
           weight(accept, openmetrics) >= weight(accept, "text/plain");
}

/* --- the rest --- */

const char *sa_serve_request_path(const char *target)
{
    static const char scheme[] = "http://";
    char host[128];
    const char *path;
    size_t n;

    if (strncasecmp(target, scheme, sizeof(scheme) - 1) != 0)
        return *target == '/' ? target : NULL;
    target += sizeof(scheme) - 1;
    n = strcspn(target, "/?");
    path = target + n;
    if (n >= sizeof(host))
        return NULL;
    memcpy(host, target, n);
    host[n] = '\0';
    if (!sa_serve_host_is_local(host))
        return NULL;
    return *path ? path : "/";
}

/* A parameter into its field. Returns what is wrong with it, or NULL. */
static const char *take(const struct sa_serve_parameter *p, bool of_one,
                        struct sa_serve_request *ret)
{
    if (strcmp(p->name, "pid") == 0 && of_one)
        return ret->pid                         ? "it is there twice"
               : parse_pid(p->value, &ret->pid) ? NULL
                                                : "name a process: ?pid=N";
    if (strcmp(p->name, "seconds") == 0 && ret->kind == SA_SERVE_ALLOCS)
        return parse_seconds(p->value, &ret->seconds) ? NULL : "a time up to 300 s, as 30 or 1m";
    if (strcmp(p->name, "debug") == 0 &&
        (ret->kind == SA_SERVE_HEAP || ret->kind == SA_SERVE_ALLOCS))
        return strcmp(p->value, "0") == 0 ? NULL : "only 0, which is profile.proto, is served";
    return "this page has no such parameter";
}

unsigned sa_serve_request_parse(const char *path, const struct sa_serve_parameter *parameters,
                                size_t count, const char *accept, struct sa_serve_request *ret,
                                char why[SA_SERVE_WHY])
{
    size_t i = 0;

    *ret = (struct sa_serve_request){.kind = SA_SERVE_INDEX};
    *why = '\0';
    while (i < PATHS && strcmp(paths[i].path, path) != 0)
        i++;
    if (i == PATHS) {
        snprintf(why, SA_SERVE_WHY, "there is no such page; / has a list");
        return 404;
    }
    ret->kind = paths[i].kind;
    ret->openmetrics = wants_openmetrics(accept);
    for (size_t k = 0; k < count; k++) {
        const char *wrong = take(&parameters[k], paths[i].of_one, ret);

        if (wrong) {
            snprintf(why, SA_SERVE_WHY, "%.60s: %s", parameters[k].name, wrong);
            sa_utf8_clean(why, strlen(why)); /* the name is the client's */
            return 400;
        }
    }
    if (paths[i].of_one && !ret->pid) {
        snprintf(why, SA_SERVE_WHY, "name a process: ?pid=N");
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
