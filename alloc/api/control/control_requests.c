/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of the control socket; see control_requests.h.
 *
 * The thread of the socket writes the state. In a child of fork, before such a thread exists, the
 * handler of fork does, or the deferred call of a slow path.
 */
#include "alloc/api/control/control_requests.h"

#include "alloc/base/error_words.h"
#include "alloc/fork/deferred_calls.h"
#include "alloc/os/clock.h"
#include "alloc/os/thread.h"
#include "include/salloc/salloc.h"

#include <errno.h>
#include <string.h>

#define SECONDS_MAX 3600

static struct {
    salloc_profile_token *trace; /* NULL: none runs */
    uint64_t trace_end_ns;
} requests;

/* Stops the trace. NULL with errno: none. */
static salloc_profile *trace_stop(void)
{
    salloc_profile *profile = salloc_profile_token_stop(requests.trace);

    if (profile || errno == EINVAL)
        requests.trace = NULL;
    return profile;
}

void sa_control_trace_look(bool now)
{
    if (requests.trace && (now || sa_clock_ns() >= requests.trace_end_ns))
        salloc_profile_free(trace_stop());
}

/* The handler of SA_DEFERRED_TRACE. */
static void trace_forget(void)
{
    if (!sa_thread_is_vfork_child())
        sa_control_trace_look(true);
}

void sa_control_forget_trace(void)
{
    if (!requests.trace)
        return;
    sa_deferred_call_set_handler(SA_DEFERRED_TRACE, trace_forget);
    sa_deferred_call_request(SA_DEFERRED_TRACE);
}

bool sa_control_number(char **at, uint64_t most, uint64_t *ret)
{
    char *p = *at;

    for (*ret = 0; *p >= '0' && *p <= '9' && *ret <= most; p++)
        *ret = *ret * 10 + (uint64_t)(*p - '0');
    if (p == *at || (*p && *p != ' ') || *ret > most)
        return false;
    *at = p + (*p == ' ');
    return true;
}

/* Requests. Each gets what is behind its name, adds to the reply, and returns 0 or -1 with errno.
 */

static int request_version(char *rest, struct sa_fmt *f)
{
    (void)rest;
    sa_fmt_add(f, " " SALLOC_VERSION " 1");
    return 0;
}

static int request_get(char *rest, struct sa_fmt *f)
{
    char value[SA_CONTROL_LINE_BYTES];

    if (salloc_get_option(rest, value, sizeof(value)) != 0)
        return -1;
    for (char *p = value; *p; p++)
        if (*p == '\n')
            *p = '?';
    sa_fmt_add(f, " %s", value);
    return 0;
}

static int request_set(char *rest, struct sa_fmt *f)
{
    char *space = strchr(rest, ' ');

    (void)f;
    if (!space) {
        errno = EINVAL;
        return -1;
    }
    *space = '\0';
    return salloc_set_option(rest, space + 1);
}

static int request_trace_start(char *rest, struct sa_fmt *f)
{
    uint64_t bytes, seconds;

    if (!sa_control_number(&rest, SIZE_MAX / 16, &bytes) ||
        !sa_control_number(&rest, SECONDS_MAX, &seconds) || *rest || !seconds) {
        errno = EINVAL;
        return -1;
    }
    if (requests.trace) {
        errno = EBUSY;
        return -1;
    }
    requests.trace = salloc_start_event_trace(bytes);
    if (!requests.trace)
        return -1;
    requests.trace_end_ns = sa_clock_ns() + seconds * 1000000000ull;
    sa_fmt_add(f, " %llu", (unsigned long long)(uintptr_t)requests.trace);
    return 0;
}

/* path: NULL: the events are not written. */
static int trace_end(const char *path, struct sa_fmt *f)
{
    struct salloc_profile_info info = {.size = sizeof(info)};
    salloc_profile *profile;
    int failed = 0;

    if (!requests.trace) {
        errno = ENOENT;
        return -1;
    }
    profile = trace_stop();
    if (!profile || salloc_profile_get_info(profile, &info) != 0)
        return -1;
    if (path)
        failed = salloc_profile_write_file(profile, path);
    salloc_profile_free(profile); /* keeps errno */
    if (!failed)
        sa_fmt_add(f, " %llu %llu", (unsigned long long)info.events,
                   (unsigned long long)info.events_lost);
    return failed;
}

static int request_trace_stop(char *rest, struct sa_fmt *f)
{
    (void)rest;
    return trace_end(NULL, f);
}

static int request_trace_write(char *rest, struct sa_fmt *f)
{
    if (*rest != '/') {
        errno = EINVAL;
        return -1;
    }
    return trace_end(rest, f);
}

/* Adds what an errno means for a request. */
static void error_add(struct sa_fmt *f, int error)
{
    switch (error) {
    case EINVAL:
        sa_fmt_add(f, "not understood");
        break;
    case ENOENT:
        sa_fmt_add(f, "no such option, or no trace");
        break;
    case EPERM:
        sa_fmt_add(f, "the option cannot change");
        break;
    case EBUSY:
        sa_fmt_add(f, "a trace runs, or a thread is being stopped");
        break;
    default:
        sa_error_words_add(f, error);
    }
}

void sa_control_answer(char *line, struct sa_fmt *f)
{
    static const struct {
        char name[14];
        int (*request)(char *rest, struct sa_fmt *f);
    } known[] = {
        {"version", request_version},
        {"get", request_get},
        {"set", request_set},
        {"trace start", request_trace_start},
        {"trace stop", request_trace_stop},
        {"trace write", request_trace_write},
    };
    int failed = -1;

    errno = EINVAL;
    sa_fmt_add(f, "ok");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = strlen(known[i].name);

        if (strncmp(line, known[i].name, n) == 0 && (line[n] == ' ' || !line[n]))
            failed = known[i].request(line + n + (line[n] == ' '), f);
    }
    if (failed) {
        f->len = 0;
        sa_fmt_add(f, "error %d ", errno);
        error_add(f, errno);
    }
    sa_fmt_add(f, "\n");
}
