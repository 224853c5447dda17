/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a process cannot be read. The kernel says EPERM or EACCES for all reasons; which it was is
 * found by looking at what its rule looks at (ptrace(2), "Ptrace access mode checking").
 */
#include "tool/target/refusal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAPABILITY_PTRACE 19

/* The rest of a line of /proc/PID/status behind its name; false: it is not there. */
static bool status_line(const char *pid, const char *name, char *ret, size_t cap)
{
    char path[64], line[256];
    bool found = false;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/%s/status", pid);
    f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof(line), f)) {
        size_t n = strlen(name);

        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            snprintf(ret, cap, "%s", line + n + 1 + strspn(line + n + 1, "\t "));
            ret[strcspn(ret, "\n")] = '\0';
            found = true;
        }
    }
    if (f)
        fclose(f);
    return found;
}

static bool may_trace_all(void)
{
    char text[64];

    return status_line("self", "CapEff", text, sizeof(text)) &&
           strtoull(text, NULL, 16) >> CAPABILITY_PTRACE & 1;
}

/* kernel.yama.ptrace_scope; 0 where there is none. */
static int trace_scope(void)
{
    FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;

    if (f) {
        if (fscanf(f, "%d", &scope) != 1)
            scope = 0;
        fclose(f);
    }
    return scope;
}

/* The kernel gives the files of a process that is not dumpable to root. */
static bool is_dumpable(const char *pid, uid_t uid)
{
    char path[64];
    struct stat s;

    snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    return stat(path, &s) != 0 || s.st_uid == uid;
}

static void explain_scope(const char *pid, int scope, struct sa_error *e)
{
    if (scope >= 3)
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %s: kernel.yama.ptrace_scope is 3: no process may read another until "
                     "the system is started with a lower one",
                     pid);
    else if (scope == 2)
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %s: kernel.yama.ptrace_scope is 2: only with CAP_SYS_PTRACE; run as "
                     "root",
                     pid);
    else
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %s: kernel.yama.ptrace_scope is 1: only its ancestors may read it; "
                     "run as root, or set it to 0 (sysctl kernel.yama.ptrace_scope=0)",
                     pid);
}

void sa_refusal_explain(pid_t number, int error, struct sa_error *e)
{
    char pid[16], text[128];
    unsigned uid;

    snprintf(pid, sizeof(pid), "%d", number);
    if (error == ESRCH || !status_line(pid, "State", text, sizeof(text))) {
        sa_error_set(e, SA_EXIT_NONE, "process %s: there is no such process", pid);
        return;
    }
    if (text[0] == 'Z' || text[0] == 'X') {
        sa_error_set(e, SA_EXIT_NONE, "process %s: it has ended, and its parent has not noticed",
                     pid);
        return;
    }
    if (!error) {
        sa_error_set(e, SA_EXIT_NOT_ON_IT,
                     "process %s: it has no memory of its own (a thread of "
                     "the kernel)",
                     pid);
        return;
    }
    if (error != EPERM && error != EACCES) {
        sa_error_set(e, SA_EXIT_FAILED, "process %s: %s", pid, strerror(error));
        return;
    }
    if (!status_line(pid, "Uid", text, sizeof(text)) || sscanf(text, "%u", &uid) != 1)
        uid = geteuid();
    if (!may_trace_all() && uid != geteuid())
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %s: it belongs to user %u; run as that user, or as root "
                     "(CAP_SYS_PTRACE)",
                     pid, uid);
    else if (!may_trace_all() && !is_dumpable(pid, uid))
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %s: it is not dumpable (set-user-ID, file capabilities, or "
                     "prctl(PR_SET_DUMPABLE)); run as root (CAP_SYS_PTRACE)",
                     pid);
    else if (trace_scope() && (!may_trace_all() || trace_scope() >= 3))
        explain_scope(pid, trace_scope(), e);
    else
        sa_error_set(e, SA_EXIT_REFUSED,
                     "process %s: the kernel refuses it, though user and capabilities are right: a "
                     "security module, a seccomp filter of ours, or a user namespace above ours",
                     pid);
}
