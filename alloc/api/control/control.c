/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket; see control.h and doc/control.md.
 *
 * A thread of its own serves one connection at a time. It holds no lock of the allocator or of libc
 * while it waits, handles no signal but SIGSYS, and calls public functions only. A request has at
 * most SA_CONTROL_LINE_BYTES bytes, and must arrive within REQUEST_MS; a connection ends after
 * REQUESTS of them. So a client that says nothing keeps others waiting for that long, and no
 * longer.
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
#include "alloc/api/control/control.h"

#include "alloc/api/control/background.h"
#include "alloc/api/control/control_requests.h"
#include "alloc/api/options/options.h"
#include "alloc/api/control/own_thread.h"
#include "alloc/api/replaced.h"
#include "alloc/base/atomic.h"
#include "alloc/base/fatal.h"
#include "alloc/base/fmt.h"
#include "alloc/os/clock.h"
#include "alloc/os/filter.h"
#include "alloc/os/socket.h"
#include "alloc/os/sys.h"
#include "alloc/os/thread.h"
#include "sampling/stack/loaded_object.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define REQUEST_MS 2000
#define REQUESTS   1000
#define LOOK_MS    500 /* how often the thread looks for the end of main, or of a trace */

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

static SA_START_DATA struct {
    uint32_t state;        /* atomic; ENDED is stored by the thread, with release order */
    uint32_t leave;        /* atomic: 1: the thread is asked to end */
    int pid;               /* of the process whose thread it is */
    unsigned threads_left; /* when the main thread had ended; 0: it runs */
    unsigned unmapped;     /* see sa_socket_unmapped_user */
    struct descriptor socket, client; /* client: the connection */
    long filters;                     /* filters of system calls at load, see filters_now */
    sigset_t mask;                    /* of the thread that has created this one */
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

/* Whether the thread must end: it was asked to, there is a filter, or the main thread has ended. */
static bool control_must_end(void)
{
    return sa_load_acquire(&control.leave) || sa_filtered() ||
           (control.threads_left = sa_background_threads_left()) != 0;
}

/* A connection's input. */
struct input {
    size_t used;
    char bytes[SA_CONTROL_LINE_BYTES];
};

/* Waits up to LOOK_MS for more input, and reads it. False: the client has gone, or its line is too
 * long, or the socket was closed or shut down. */
static bool input_read(struct input *in, unsigned ms)
{
    long n;

    if (in->used == sizeof(in->bytes))
        return false;
    n = sa_socket_wait(control.client.fd, control.socket.fd, ms < LOOK_MS ? ms : LOOK_MS);
    if (!n || n == -EINTR) /* libc interrupts all threads when the process changes its user */
        return true;
    if (n < 0 || !descriptor_is_ours(&control.client))
        return false;
    n = sa_sys_read(control.client.fd, in->bytes + in->used, sizeof(in->bytes) - in->used);
    in->used += n > 0 ? (size_t)n : 0;
    return n > 0 || n == -EINTR || n == -EAGAIN;
}

/* Reads until there is a line, and returns its length. -1: there is none in time, or the connection
 * has to end. */
static long input_line(struct input *in)
{
    uint64_t end = sa_clock_ns() + REQUEST_MS * 1000000ull;

    while (!control_must_end()) {
        char *newline = memchr(in->bytes, '\n', in->used);
        uint64_t now = sa_clock_ns();

        if (newline)
            return newline - in->bytes;
        if (now >= end || !input_read(in, (unsigned)((end - now) / 1000000) + 1))
            break;
    }
    return -1;
}

static void serve_client(void)
{
    struct input in = {.used = 0};

    for (int i = 0; i < REQUESTS; i++) {
        char reply[SA_CONTROL_LINE_BYTES + 128];
        long n = input_line(&in);
        struct sa_fmt f;

        /* The program may have changed its user since the request before. */
        if (n < 0 || !sa_socket_peer_may(control.client.fd, control.unmapped))
            return;
        in.bytes[n] = '\0';
        sa_control_trace_look(false);
        sa_fmt_init(&f, reply, sizeof(reply));
        sa_control_answer(in.bytes, &f);
        if (control_must_end() || !descriptor_is_ours(&control.client) ||
            sa_socket_send(control.client.fd, reply, f.len) != 0)
            return;
        in.used -= (size_t)n + 1;
        memmove(in.bytes, in.bytes + n + 1, in.used);
    }
}

/* Serves the next client. Returns 0, or the errno with which nobody can be accepted. */
static int serve(void)
{
    int fd = sa_socket_accept(control.socket.fd);

    if (fd < 0)
        return fd == -EAGAIN || fd == -ECONNABORTED || fd == -EINTR ? 0 : -fd;
    descriptor_set(&control.client, fd);
    if (sa_socket_peer_may(fd, control.unmapped))
        serve_client();
    descriptor_close(&control.client);
    return 0;
}

static void *control_thread(void *unused)
{
    sa_sys_name_thread("salloc-control");
    while (!control_must_end()) {
        int events = sa_sys_poll(control.socket.fd, POLLIN, LOOK_MS), error = 0;

        if (!descriptor_is_ours(&control.socket) || (events > 0 && events != POLLIN))
            break; /* closed, or shut down */
        if (events > 0 && !sa_load_acquire(&control.leave))
            error = serve();
        if (error == EINVAL) /* shut down */
            break;
        if (error || (events < 0 && events != -EINTR)) /* the program's limits, for example */
            sa_sys_futex_wait(&control.leave, 0, LOOK_MS * 1000000ll);
        sa_control_trace_look(false);
    }
    sa_control_trace_look(true);
    descriptor_close(&control.socket);
    if (control.threads_left == 2) /* libc runs the program's exit handlers on this thread */
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
        return sa_control_number(&at, INT32_MAX, &n) ? (long)n : -1;
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

#ifndef SA_STATIC

/* Whether pthread_create is libc's. One that the program has put in its place may take locks that a
 * parent held at fork, or not be ready for constructors. Asks the loader. */
static bool control_may_create(void)
{
    uintptr_t create = (uintptr_t)pthread_create;
    ElfW(Sym) *symbol = NULL;
    struct sa_loaded_object of;
    Dl_info info;

    if (sa_loaded_object_find((uintptr_t)pthread_attr_setstacksize, &of) && create >= of.start &&
        create < of.end)
        return true;
    /* Programs at fixed addresses that take the function's address have a jump to it. */
    return dladdr1((void *)create, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
           symbol->st_shndx == SHN_UNDEF;
}

#else /* libc is part of the program */

static bool control_may_create(void)
{
    return true;
}

#endif

static int control_create(void)
{
    struct sa_own_thread thread = {
        .body = control_thread, .stack_bytes = STACK_BYTES, .detached = true, .takes_sigsys = true};
    pthread_t unused;

    sa_store_relaxed(&control.state, RUNNING);
    return sa_own_thread_create(&thread, &control.mask, &unused);
}

/* Listens, and starts the thread. Returns 0 or an errno. */
static int control_start(void)
{
    char name[SA_SOCKET_NAME_MAX];
    int error = EACCES;

    sa_store_relaxed(&control.leave, 0);
    control.pid = sa_sys_pid();
    control.threads_left = 0;
    control.unmapped = sa_socket_unmapped_user();
    descriptor_set(&control.client, -1);
    descriptor_set(&control.socket, -1);
    if (control_name(name, sizeof(name))) {
        int fd = sa_socket_listen(name);

        descriptor_set(&control.socket, fd);
        error = fd < 0 ? -fd : control_create();
    }
    if (!error)
        return 0;
    sa_store_relaxed(&control.state, NONE);
    descriptor_close(&control.socket);
    return error;
}

void sa_control_start(void)
{
    int error;

    if (!sa_options.control || sa_replaced_serves_nobody() || sa_filtered())
        return;
    control.filters = filters_now();
    error = control_may_create() ? control_start() : ENOTSUP;
    if (error)
        sa_warn("SALLOC_CONF: control: cannot listen (errno %d)", error);
}

void sa_control_leave(void)
{
    if (sa_thread_is_vfork_child() || sa_load_acquire(&control.state) != RUNNING)
        return;
    if (!sa_load_acquire(&control.leave)) {
        /* A child that no handler of fork knows has the parent's state, and maybe its memory. */
        if (sa_sys_pid() != control.pid)
            return;
        sa_store_release(&control.leave, 1);
        sa_sys_futex_wake(&control.leave, 1);
        if (descriptor_is_ours(&control.socket))
            sa_socket_shutdown(control.socket.fd); /* wakes the thread, from a connection, too */
    }
    for (int i = 0; i < LEAVE_STEPS && sa_load_acquire(&control.state) == RUNNING; i++)
        sa_sys_futex_wait(&control.state, RUNNING, STEP_NS);
}

SA_FORK void sa_control_after_fork(bool threads)
{
    uint32_t state = sa_load_relaxed(&control.state);

    if (state == RUNNING) { /* in the parent */
        descriptor_close(&control.socket);
        descriptor_close(&control.client);
    }
    sa_store_changed(&control.state, (uint32_t)NONE);
    if (!threads) {
        sa_control_forget_trace();
    } else if (state != NONE) {
        int saved = errno;

        sa_control_trace_look(true); /* the child's copy of the parent's recording */
        /* A failure does not repeat in each child what the program's start has said. */
        if (!sa_filtered() && filters_now() == control.filters)
            control_start();
        errno = saved;
    }
}
