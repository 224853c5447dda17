/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket; see control.h and doc/control.md.
 *
 * A thread of its own serves one connection at a time. It holds no lock of the allocator or of libc
 * while it waits, handles no signal but SIGSYS, and calls public functions only. A request has at
 * most LINE_BYTES bytes, and must arrive within REQUEST_MS; a connection ends after REQUESTS of
 * them. So a client that says nothing keeps others waiting for that long, and no longer.
 *
 * The thread exists only if the option asked for it, and no filter of system calls was installed
 * since the library was loaded, or is about to be. It ends when the main thread has ended
 * before its time, because libc ends a process with its last thread.
 *
 * Programs close descriptors that they do not know, and open others of the same numbers. So the
 * thread uses a number only while it is that of the same file, and ends when the socket was closed.
 *
 * Who writes the state: the constructor and the handler of fork start the thread, and no other
 * thread uses the state then. Afterwards it is the thread's, but for `leave`.
 */
#include "alloc/api/control.h"

#include "alloc/api/background.h"
#include "alloc/api/options.h"
#include "alloc/api/replaced.h"
#include "alloc/base/atomic.h"
#include "alloc/base/error_words.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/clock.h"
#include "alloc/os/filter.h"
#include "alloc/os/socket.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "include/salloc/salloc.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define LINE_BYTES  1280 /* a path of an option, and what is around it */
#define REQUEST_MS  2000
#define REQUESTS    1000
#define LOOK_MS     500 /* how often the thread looks for the end of the main thread, or of a trace */
#define SECONDS_MAX 3600

/* If the thread is the last one, libc runs the program's exit handlers on it. */
#define STACK_BYTES (1024 * 1024)

/* How long a call of prctl waits for the end of the thread, in steps of STEP_NS. */
#define LEAVE_STEPS 100
#define STEP_NS     1000000

enum { NONE, RUNNING, ENDED };

/* A descriptor, and the file that it had first. */
struct descriptor {
    int fd; /* -1: none */
    uint64_t identity[2];
};

static struct {
    uint32_t state; /* atomic; ENDED is stored by the thread, with release order */
    bool leave;     /* atomic: the thread is asked to end */
    struct descriptor socket, client; /* client: the connection */
    salloc_profile_token *trace;      /* NULL: none runs */
    uint64_t trace_end_ns;
    long filters;  /* filters of system calls at load, see filters_now */
    sigset_t mask; /* of the thread that has created this one */
} control;

static void descriptor_set(struct descriptor *d, int fd)
{
    d->fd = fd;
    if (fd >= 0 && sa_sys_file_identity(fd, d->identity) != 0)
        d->identity[0] = d->identity[1] = 0;
}

static bool descriptor_is_ours(const struct descriptor *d)
{
    uint64_t now[2];

    return d->fd >= 0 && sa_sys_file_identity(d->fd, now) == 0 && now[0] == d->identity[0] &&
           now[1] == d->identity[1];
}

static void descriptor_close(struct descriptor *d)
{
    if (descriptor_is_ours(d))
        sa_sys_close(d->fd);
    d->fd = -1;
}

/* Stops the trace. NULL with errno: none. */
static salloc_profile *trace_stop(void)
{
    salloc_profile *profile = salloc_profile_token_stop(control.trace);

    if (profile || errno == EINVAL)
        control.trace = NULL;
    return profile;
}

/* Stops a trace whose time is over. */
static void trace_look(bool now)
{
    if (control.trace && (now || sa_clock_ns() >= control.trace_end_ns))
        salloc_profile_free(trace_stop());
}

/* Reads a number up to `most`, and advances *at behind it and a space. False: there is none. */
static bool number_next(char **at, uint64_t most, uint64_t *ret)
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
    char value[LINE_BYTES];

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

    if (!number_next(&rest, SIZE_MAX / 16, &bytes) || !number_next(&rest, SECONDS_MAX, &seconds) ||
        *rest || !seconds) {
        errno = EINVAL;
        return -1;
    }
    if (control.trace) {
        errno = EBUSY;
        return -1;
    }
    control.trace = salloc_start_event_trace(bytes);
    if (!control.trace)
        return -1;
    control.trace_end_ns = sa_clock_ns() + seconds * 1000000000ull;
    sa_fmt_add(f, " %llu", (unsigned long long)(uintptr_t)control.trace);
    return 0;
}

/* path: NULL: the events are not written. */
static int trace_end(const char *path, struct sa_fmt *f)
{
    struct salloc_profile_info info = {.size = sizeof(info)};
    salloc_profile *profile;
    int failed = 0;

    if (!control.trace) {
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

/* Answers one line. */
static void answer(char *line, struct sa_fmt *f)
{
    static const struct {
        char name[14];
        int (*request)(char *rest, struct sa_fmt *f);
    } requests[] = {
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
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        size_t n = strlen(requests[i].name);

        if (strncmp(line, requests[i].name, n) == 0 && (line[n] == ' ' || !line[n]))
            failed = requests[i].request(line + n + (line[n] == ' '), f);
    }
    if (failed) {
        f->len = 0;
        sa_fmt_add(f, "error %d ", errno);
        error_add(f, errno);
    }
    sa_fmt_add(f, "\n");
}

/* A connection's input. */
struct input {
    size_t used;
    char bytes[LINE_BYTES];
};

/* Reads until there is a line, and returns its length. -1: the client has gone, is too slow, or its
 * line is too long. */
static long input_line(struct input *in)
{
    uint64_t end = sa_clock_ns() + REQUEST_MS * 1000000ull;

    for (;;) {
        char *newline = memchr(in->bytes, '\n', in->used);
        uint64_t now = sa_clock_ns();
        long n;

        if (newline)
            return newline - in->bytes;
        if (now >= end || in->used == sizeof(in->bytes) || sa_load_relaxed(&control.leave) ||
            sa_sys_poll(control.client.fd, POLLIN, (unsigned)((end - now) / 1000000) + 1) <= 0 ||
            !descriptor_is_ours(&control.client))
            return -1;
        n = sa_sys_read(control.client.fd, in->bytes + in->used, sizeof(in->bytes) - in->used);
        if (n <= 0 && n != -EINTR && n != -EAGAIN)
            return -1;
        in->used += n > 0 ? (size_t)n : 0;
    }
}

static void serve_client(void)
{
    struct input in = {.used = 0};

    for (int i = 0; i < REQUESTS; i++) {
        char reply[LINE_BYTES + 128];
        long n = input_line(&in);
        struct sa_fmt f;

        if (n < 0)
            return;
        in.bytes[n] = '\0';
        trace_look(false);
        sa_fmt_init(&f, reply, sizeof(reply));
        answer(in.bytes, &f);
        if (!descriptor_is_ours(&control.client) ||
            sa_socket_send(control.client.fd, reply, f.len) != 0)
            return;
        in.used -= (size_t)n + 1;
        memmove(in.bytes, in.bytes + n + 1, in.used);
    }
}

static void serve(void)
{
    int fd = sa_socket_accept(control.socket.fd);

    if (fd < 0)
        return;
    descriptor_set(&control.client, fd);
    if (sa_socket_peer_may(fd))
        serve_client();
    descriptor_close(&control.client);
}

static void *control_thread(void *unused)
{
    unsigned left = 0;

    sa_sys_name_thread("salloc-control");
    while (!left && !sa_load_acquire(&control.leave) && !sa_filtered()) {
        int events = sa_sys_poll(control.socket.fd, POLLIN, LOOK_MS);

        if (!descriptor_is_ours(&control.socket))
            break;
        if (events > 0 && !sa_load_acquire(&control.leave))
            serve();
        trace_look(false);
        left = sa_background_threads_left();
    }
    trace_look(true);
    descriptor_close(&control.socket);
    if (left == 2) /* libc runs the program's exit handlers on this thread */
        pthread_sigmask(SIG_SETMASK, &control.mask, NULL);
    sa_store_release(&control.state, ENDED);
    return unused;
}

/* Returns the number of filters of system calls that the process has, or before Linux 5.9 whether
 * it has any; -1: the kernel does not tell. */
static long filters_now(void)
{
    static const char names[][20] = {"\nSeccomp_filters:\t", "\nSeccomp:\t"};
    char text[4096];

    if (sa_sys_read_file("/proc/self/status", text, sizeof(text)) <= 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        char *at = strstr(text, names[i]);
        uint64_t n;

        if (!at)
            continue;
        at += strlen(names[i]);
        at[strcspn(at, "\n")] = '\0';
        return number_next(&at, INT32_MAX, &n) ? (long)n : -1;
    }
    return -1;
}

/* Stores the name of the socket. PIDs are used again: the start of the process tells it from
 * another one, in the unit of the 22nd field of /proc/self/stat. False: the kernel does not tell.
 */
static bool control_name(char *buf, size_t cap)
{
    char text[512], *at;
    struct sa_fmt f;

    if (sa_sys_read_file("/proc/self/stat", text, sizeof(text)) <= 0)
        return false;
    at = strrchr(text, ')'); /* behind the name: the third field comes next */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return false;
    at[1 + strcspn(at + 1, " ")] = '\0';
    sa_fmt_init(&f, buf, cap);
    sa_fmt_add(&f, "salloc.%d.%s", sa_sys_pid(), at + 1);
    return !f.truncated;
}

/* Creates the thread with all signals blocked but SIGSYS: a filter may answer calls with it. */
static int control_create(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    int error;

    sigfillset(&all);
    sigdelset(&all, SIGSYS);
    pthread_sigmask(SIG_SETMASK, &all, &control.mask);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sa_store_relaxed(&control.state, RUNNING);
    error = pthread_create(&thread, &attr, control_thread, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &control.mask, NULL);
    return error;
}

/* Listens, and starts the thread. */
static void control_start(void)
{
    char name[SA_SOCKET_NAME_MAX];
    int error = EACCES;

    sa_store_relaxed(&control.leave, false);
    descriptor_set(&control.client, -1);
    descriptor_set(&control.socket, -1);
    if (control_name(name, sizeof(name))) {
        int fd = sa_socket_listen(name);

        descriptor_set(&control.socket, fd);
        error = fd < 0 ? -fd : control_create();
    }
    if (!error)
        return;
    sa_store_relaxed(&control.state, NONE);
    descriptor_close(&control.socket);
    sa_warn("SALLOC_CONF: control: cannot listen (errno %d)", error);
}

void sa_control_start(void)
{
    if (!sa_options.control || sa_replaced_serves_nobody() || sa_filtered())
        return;
    control.filters = filters_now();
    control_start();
}

void sa_control_leave(void)
{
    if (sa_thread_is_vfork_child() || sa_load_acquire(&control.state) != RUNNING)
        return;
    sa_store_release(&control.leave, true);
    if (descriptor_is_ours(&control.socket))
        sa_socket_shutdown(control.socket.fd); /* wakes the thread */
    for (int i = 0; i < LEAVE_STEPS && sa_load_acquire(&control.state) == RUNNING; i++)
        sa_sys_futex_wait(&control.state, RUNNING, STEP_NS);
}

void sa_control_after_fork(bool threads)
{
    if (sa_load_relaxed(&control.state) == RUNNING) { /* in the parent */
        descriptor_close(&control.socket);
        descriptor_close(&control.client);
    }
    if (sa_load_relaxed(&control.state) == NONE || !threads)
        return;
    sa_store_relaxed(&control.state, NONE);
    trace_look(true); /* the child's copy of the parent's recording */
    if (!sa_filtered() && filters_now() == control.filters)
        control_start();
}
