/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in child processes; see child.h. No state. */
#include "tool/base/child.h"

#include "tool/base/limit.h"
#include "tool/base/text.h"
#include "tool/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Waits until there is something to read. False: the time is over. A child may wait in the kernel
 * for ever. */
static bool wait_for(int fd, double end)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    double left;

    while ((left = end - sa_time_seconds()) > 0)
        if (poll(&poll_fd, 1, (int)(left * 1000) + 1) > 0)
            return true;
    return false;
}

static enum sa_child_end read_all(const struct sa_child_task *task, int fd, struct sa_buffer *ret)
{
    double end = sa_time_seconds() + task->seconds;
    size_t before = ret->used;
    char some[16384];
    ssize_t n;

    for (;;) {
        if (!wait_for(fd, end))
            return SA_CHILD_LATE;
        n = read(fd, some, sizeof(some));
        if (n == 0)
            return SA_CHILD_DONE;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || (size_t)n > task->answer_max - (ret->used - before) ||
            !sa_text_put(ret, some, (size_t)n))
            return SA_CHILD_FAILED;
    }
}

enum sa_child_end sa_child_run(const struct sa_child_task *task, struct sa_buffer *ret,
                               int *ret_number)
{
    enum sa_child_end result;
    int ends[2], status = 0;
    pid_t child;

    *ret_number = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        *ret_number = errno;
        return SA_CHILD_NONE;
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* with whoever gives it up */
        sa_limit_lower(RLIMIT_CORE, 0);
        _exit(task->run(task->arg, ends[1]) ? 0 : 1);
    }
    *ret_number = child < 0 ? errno : 0;
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return SA_CHILD_NONE;
    }
    result = read_all(task, ends[0], ret);
    close(ends[0]);
    if (result != SA_CHILD_DONE)
        kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return SA_CHILD_FAILED;
    if (result != SA_CHILD_DONE)
        return result;
    *ret_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFSIGNALED(status)        ? SA_CHILD_KILLED
           : WEXITSTATUS(status) == 0 ? SA_CHILD_DONE
                                      : SA_CHILD_FAILED;
}
