/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every call ends in a process that another one steps through, instruction by instruction, as gdb
 * does for software watchpoints, `record full` and `until`. Each step restarts the critical section
 * that it stops in, so none commits. The child makes the calls; the parent steps, and counts the
 * steps of each.
 */
#include "test/outside/check.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#define STEPS_MAX 400000 /* of one of the works; with a pass of maintenance 1/4 of that */
#define ROUNDS    2      /* empty caches, and caches that hold something */

static char *volatile held[10];

static void small(void)
{
    free(malloc(40));
}

static void grown(void)
{
    char *p = malloc(24);

    for (size_t n = 100; n < 5000; n *= 3)
        p = realloc(p, n);
    free(p);
}

static void cleared(void)
{
    char *p = calloc(7, 100);

    REQUIRE(p && p[0] == 0 && p[699] == 0);
    free(p);
}

static void aligned(void)
{
    free(memalign(256, 1000));
}

static void several(void)
{
    for (size_t i = 0; i < 10; i++)
        held[i] = malloc(64);
    for (size_t i = 0; i < 10; i++)
        free(held[i]);
}

static void large(void)
{
    free(malloc(1 << 20));
}

static const struct {
    const char *name;
    void (*f)(void);
} works[] = {{"malloc", small},     {"realloc", grown}, {"calloc", cleared},
             {"memalign", aligned}, {"many", several},  {"large", large}};

#define WORKS (sizeof(works) / sizeof(*works))

/* Stops before each of the works, and after the last. Ordinary runs come first: they bind the
 * functions and fill the caches. */
static void child(void)
{
    for (size_t i = 0; i < WORKS; i++)
        for (int k = 0; k < 200; k++)
            works[i].f();
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < WORKS; i++) {
            raise(SIGSTOP);
            works[i].f();
        }
    raise(SIGSTOP);
    _exit(0);
}

/* Steps to the next SIGSTOP. Returns the number of steps. */
static long step(pid_t pid, long most)
{
    int status = 0;
    long steps = 0;

    do {
        REQUIRE(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) == 0);
        REQUIRE(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
        steps++;
    } while (WSTOPSIG(status) == SIGTRAP && steps < most);
    return steps;
}

int main(void)
{
    int status = 0;
    pid_t pid;

    check_begin();
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0)
        child();
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (!WIFSTOPPED(status))
        SKIP("no process may be traced here");
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < WORKS; i++) {
            long most = (long)STEPS_MAX, steps = step(pid, most);

            check_say("%-8s %7ld steps", works[i].name, steps);
            CHECK_SAYS(steps < most, "%s does not end within %ld steps", works[i].name, most);
            if (steps >= most) {
                kill(pid, SIGKILL);
                return check_end();
            }
        }
    ptrace(PTRACE_CONT, pid, NULL, NULL);
    REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return check_end();
}
