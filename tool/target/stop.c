/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping a process; see stop.h. */
#include "tool/target/stop.h"

#include "tool/base/io.h"
#include "tool/base/time.h"
#include "tool/target/refusal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#define ROUNDS_MAX 64 /* threads are looked for until none is new */

#define TELL_SECONDS 1.0      /* until it is said what is waited for */
#define MOMENT_NS    20000000 /* between two looks, where no signal comes */

static bool has_thread(const struct sa_target_stop *stop, pid_t thread)
{
    for (size_t i = 0; i < stop->count; i++)
        if (stop->threads[i] == thread)
            return true;
    return false;
}

static bool add_thread(struct sa_target_stop *stop, pid_t thread)
{
    if (stop->count == stop->cap) {
        size_t cap = stop->cap ? 2 * stop->cap : 64;
        void *more = realloc(stop->threads, cap * sizeof(*stop->threads));

        if (!more)
            return false;
        stop->threads = more;
        stop->cap = cap;
    }
    stop->threads[stop->count++] = thread;
    return true;
}

/* Says once what holds a thread up that does not stop: a group that is frozen (cgroup v1), or a
 * call of the kernel that cannot be interrupted. */
static void tell_wait(const struct sa_target_stop *stop, pid_t thread)
{
    char where[128] = "", state[64] = "", path[512], groups[2048], *at, *end;
    FILE *file;

    if (sa_io_read_proc(thread, "cgroup", groups, sizeof(groups)) &&
        (at = strstr(groups, ":freezer:")) != NULL) {
        at += strlen(":freezer:");
        end = at + strcspn(at, "\n");
        *end = '\0';
        snprintf(path, sizeof(path), "/sys/fs/cgroup/freezer%s/freezer.state", at);
        file = fopen(path, "re");
        if (file && fgets(state, sizeof(state), file) && strncmp(state, "THAWED", 6) != 0) {
            fprintf(
                stderr,
                "sallocctl: process %d: its control group %s is frozen (freezer); waiting until "
                "it is thawed\n",
                stop->pid, at);
            fclose(file);
            return;
        }
        if (file)
            fclose(file);
    }
    if (!sa_io_read_proc(thread, "wchan", where, sizeof(where)) || strcmp(where, "0") == 0)
        snprintf(where, sizeof(where), "the kernel");
    fprintf(stderr,
            "sallocctl: process %d: its thread %d waits in %s and cannot be stopped; waiting until "
            "it goes on\n",
            stop->pid, thread, where);
}

/* Waits until a thread has stopped, whose tracer gets SIGCHLD then. False: it has ended. */
static bool wait_for(struct sa_target_stop *stop, pid_t thread)
{
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    double begin = sa_time_seconds();
    sigset_t child, before;
    int status = 0;
    pid_t found;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    while ((found = waitpid(thread, &status, __WALL | WNOHANG)) == 0) {
        (void)sigtimedwait(&child, NULL, &moment);
        if (!stop->told && sa_time_seconds() > begin + TELL_SECONDS) {
            tell_wait(stop, thread);
            stop->told = true;
        }
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return found == thread && WIFSTOPPED(status);
}

/* Stops a thread. One that has ended meanwhile is none. The first thread is listed until the
 * process ends, and the kernel refuses to trace it once it has ended. */
static bool stop_thread(struct sa_target_stop *stop, pid_t thread, int *ret_error)
{
    *ret_error = 0;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
        *ret_error = errno == ESRCH || sa_io_has_ended(thread) ? 0 : errno;
        return *ret_error == 0;
    }
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0)
        return true;
    if (!wait_for(stop, thread))
        return true;
    if (add_thread(stop, thread))
        return true;
    *ret_error = ENOMEM;
    return false;
}

/* One look at all threads: whether one was new; negative: it failed. */
static int stop_round(struct sa_target_stop *stop, pid_t pid, int *ret_error)
{
    char path[64];
    struct dirent *entry;
    size_t ended = 0;
    int any = 0;
    DIR *tasks;

    snprintf(path, sizeof(path), "/proc/%d/task", pid);
    tasks = opendir(path);
    *ret_error = errno;
    if (!tasks)
        return -1;
    while (any >= 0 && (entry = readdir(tasks))) {
        pid_t thread = atoi(entry->d_name);
        size_t before = stop->count;

        if (thread <= 0 || has_thread(stop, thread))
            continue;
        if (!stop_thread(stop, thread, ret_error))
            any = -1;
        else if (stop->count > before)
            any = 1;
        else
            ended++;
    }
    closedir(tasks);
    if (any == 0 && ended != stop->ended)
        any = 1;
    stop->ended = ended;
    return any;
}

bool sa_stop_begin(struct sa_target_stop *stop, pid_t pid, struct sa_error *e)
{
    int error = 0, any = 1;

    memset(stop, 0, sizeof(*stop));
    stop->pid = pid;
    for (int i = 0; any > 0 && i < ROUNDS_MAX; i++)
        any = stop_round(stop, pid, &error);
    if (any == 0)
        return true;
    sa_stop_end(stop);
    if (error == EPERM)
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %d: it cannot be stopped: another process, such as a debugger, "
                     "traces it already, or the kernel refuses; without --stop it can be read",
                     pid);
    else
        sa_refusal_explain(pid, error, e);
    return false;
}

void sa_stop_end(struct sa_target_stop *stop)
{
    for (size_t i = 0; i < stop->count; i++)
        ptrace(PTRACE_DETACH, stop->threads[i], NULL, NULL);
    free(stop->threads);
    memset(stop, 0, sizeof(*stop));
}
