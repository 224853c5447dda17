/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over the control socket; see control_client.h. Its name has the number of the process in
 * its own PID namespace, and is one of its network namespace. Any process may take a name that is
 * free, so the kernel is asked who has answered.
 */
#include "tool/target/control_client.h"

#include "tool/base/io.h"
#include "tool/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 5000

/* Enters its network namespace, if it is another one. */
static bool enter_network(pid_t pid, struct sa_error *e)
{
    struct stat ours, theirs;
    char path[SA_PROC_PATH];
    bool fine;
    int fd;

    sa_io_proc_path(path, pid, "ns/net");
    if (stat(path, &theirs) != 0 || stat("/proc/self/ns/net", &ours) != 0 ||
        (ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev))
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    fine = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;
    if (!fine)
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %d: its control socket is in another network namespace, which only "
                     "root may enter",
                     (int)pid);
    if (fd >= 0)
        close(fd);
    return fine;
}

static bool connect_to(struct sa_control *c, long number, unsigned long long start,
                       struct sa_error *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "salloc.%ld.%llu", number,
                     start);
    struct ucred peer;
    socklen_t bytes = sizeof(peer);

    /* A process that is stopped, and whose queue is full, would keep us waiting for good. */
    struct timeval patience = {ANSWER_MS / 1000, 0};

    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd >= 0)
        setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (c->fd < 0 ||
        connect(c->fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0) {
        sa_error_set(e, errno == EPERM || errno == EACCES ? SA_EXIT_REFUSED : SA_EXIT_FAILED,
                     errno == ECONNREFUSED
                         ? "process %d has no control socket: SALLOC_CONF=control:on gives it one"
                         : "process %d: its control socket cannot be reached",
                     (int)c->pid);
        return false;
    }
    if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.pid != c->pid) {
        sa_error_set(e, SA_EXIT_REFUSED, "process %d: another process has taken its control socket",
                     (int)c->pid);
        return false;
    }
    return true;
}

bool sa_control_open(struct sa_control *c, pid_t pid, struct sa_error *e)
{
    unsigned long long start = sa_io_started(pid);
    long number = sa_io_own_pid(pid);

    *c = (struct sa_control){.fd = -1, .pid = pid};
    if (!number || !start)
        sa_error_set(e, SA_EXIT_NONE, "there is no process %d", (int)pid);
    else if (enter_network(pid, e))
        connect_to(c, number, start, e);
    if (e->code)
        sa_control_close(c);
    return !e->code;
}

void sa_control_close(struct sa_control *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* Reads a line, without its newline. All of it within ANSWER_MS, however it comes. */
static bool read_line(struct sa_control *c, char *ret)
{
    int64_t end = sa_time_ns(CLOCK_MONOTONIC) / 1000000 + ANSWER_MS;
    size_t used = 0;

    while (used < SA_CONTROL_LINE - 1) {
        struct pollfd wait = {c->fd, POLLIN, 0};
        int64_t left = end - sa_time_ns(CLOCK_MONOTONIC) / 1000000;
        ssize_t n;

        if (left <= 0 || poll(&wait, 1, (int)left) <= 0)
            return false;
        n = recv(c->fd, ret + used, SA_CONTROL_LINE - 1 - used, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return false;
        used += (size_t)n;
        if (ret[used - 1] == '\n') {
            ret[used - 1] = '\0';
            return true;
        }
    }
    return false;
}

bool sa_control_ask(struct sa_control *c, char *ret, struct sa_error *e, const char *format, ...)
{
    char line[SA_CONTROL_LINE];
    va_list args;
    int n, number = 0, at = 0;

    va_start(args, format);
    n = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof(line) - 1 || strchr(line, '\n')) {
        sa_error_set(e, SA_EXIT_USAGE, "that is too long, or has more than a line");
        return false;
    }
    line[n++] = '\n';
    if (send(c->fd, line, (size_t)n, MSG_NOSIGNAL) != n || !read_line(c, ret)) {
        sa_error_set(e, SA_EXIT_FAILED, "process %d does not answer", (int)c->pid);
        return false;
    }
    for (char *p = ret; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    if (strcmp(ret, "ok") == 0 || strncmp(ret, "ok ", 3) == 0) {
        memmove(ret, ret + (ret[2] ? 3 : 2), strlen(ret + (ret[2] ? 3 : 2)) + 1);
        return true;
    }
    if (sscanf(ret, "error %d %n", &number, &at) == 1 && at > 0)
        sa_error_set(e, SA_EXIT_FAILED, "process %d: %s", (int)c->pid,
                     ret[at] ? ret + at : strerror(number));
    else
        sa_error_set(e, SA_EXIT_DAMAGED, "process %d answers '%.100s'", (int)c->pid, ret);
    return false;
}
