/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks in child processes; see child.h. No state. */
#include "tool/base/child.h"

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

static void lower(int which, uint64_t most)
{
    struct rlimit limit;

    if (getrlimit(which, &limit) != 0)
        return;
    if (limit.rlim_cur > most)
        limit.rlim_cur = most;
    if (limit.rlim_max > most)
        limit.rlim_max = most;
    setrlimit(which, &limit);
}

static void limit_memory(uint64_t more)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long pages;

    if (!f)
        return;
    if (fscanf(f, "%lu", &pages) == 1)
        lower(RLIMIT_AS, (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) + more);
    fclose(f);
}

static void set_limits(const struct sa_child_task *task)
{
    lower(RLIMIT_CORE, 0);
    if (task->cpu_seconds)
        lower(RLIMIT_CPU, task->cpu_seconds);
    if (task->file)
        lower(RLIMIT_FSIZE, task->file);
    if (task->memory)
        limit_memory(task->memory);
}

int sa_child_start(const struct sa_child_task *task, struct sa_child *ret)
{
    int ends[2], failed;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return errno;
    fflush(stdout);
    *ret = (struct sa_child){fork(), ends[0]};
    failed = ret->pid < 0 ? errno : 0;
    if (ret->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* with whoever gives it up */
        set_limits(task);
        _exit(task->run(task->arg, ends[1]) ? 0 : 1);
    }
    close(ends[1]);
    if (failed)
        close(ends[0]);
    return failed;
}

/* errno counts after a call that failed only: at the end of a file it is that of an earlier one. */
ssize_t sa_child_read(int fd, void *data, size_t bytes, double end)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    double left;

    while ((left = end - sa_time_seconds()) > 0) {
        ssize_t n = -1;
        int found = poll(&ready, 1, (int)(left * 1000) + 1);

        if (found > 0)
            n = read(fd, data, bytes);
        if (n >= 0)
            return n;
        if (found && errno != EINTR)
            return -errno;
    }
    return -ETIME;
}

int sa_child_end(pid_t pid, bool kill_it)
{
    int status = W_EXITCODE(1, 0); /* where SIGCHLD is ignored, nothing tells it */

    if (kill_it)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static enum sa_child_end read_all(const struct sa_child_task *task, int fd, struct sa_buffer *ret)
{
    double end = sa_time_seconds() + task->seconds;
    size_t left = task->answer_max;
    char some[16384];
    ssize_t n;

    while ((n = sa_child_read(fd, some, sizeof(some), end)) > 0) {
        if ((size_t)n > left || !sa_text_put(ret, some, (size_t)n))
            return SA_CHILD_FAILED;
        left -= (size_t)n;
    }
    return n == 0 ? SA_CHILD_DONE : n == -ETIME ? SA_CHILD_LATE : SA_CHILD_FAILED;
}

enum sa_child_end sa_child_run(const struct sa_child_task *task, struct sa_buffer *ret,
                               int *ret_number)
{
    enum sa_child_end result;
    struct sa_child child;
    int status;

    *ret_number = sa_child_start(task, &child);
    if (*ret_number)
        return SA_CHILD_NONE;
    result = read_all(task, child.fd, ret);
    close(child.fd);
    status = sa_child_end(child.pid, result != SA_CHILD_DONE);
    if (result != SA_CHILD_DONE)
        return result;
    *ret_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFSIGNALED(status) ? SA_CHILD_KILLED : status ? SA_CHILD_FAILED : SA_CHILD_DONE;
}
