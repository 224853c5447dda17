/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program under one or several preloads and reports what each start cost.
 *
 *   launch FD COUNT PRELOAD[,PRELOAD...] PROGRAM [ARGUMENT...]
 *
 * COUNT times, in turn for each PRELOAD ("-" for none), the program is started with posix_spawn and
 * waited for, and a line "INDEX NANOSECONDS MAXRSS_KIB WAIT_STATUS" is written to FD: the place of
 * the PRELOAD in the list, the time from before the spawn to after the wait, ru_maxrss and the
 * status as wait4 gave them.
 *
 * This is a program of its own because a child's ru_maxrss is at least the size of the process that
 * spawned it, which for a Python script is more than what is to be measured. For the same reason it
 * is linked statically where that is possible: it is then smaller than any program it may start.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PRELOADS_MAX 16

extern char **environ;

static void die(const char *what, int error)
{
    fprintf(stderr, "launch: %s: %s\n", what, strerror(error));
    exit(2);
}

/* The environment without LD_PRELOAD, its first place free for another one. */
static char **environment_make(void)
{
    size_t n = 0, kept = 1;
    char **env;

    while (environ[n])
        n++;
    env = calloc(n + 2, sizeof(*env));
    if (!env)
        die("environment", ENOMEM);
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            env[kept++] = environ[i];
    return env;
}

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void launch_once(int fd, size_t index, char **argv, char **env)
{
    long long start = now_ns(), took;
    struct rusage usage;
    int status, error;
    pid_t pid;

    error = posix_spawn(&pid, argv[0], NULL, NULL, argv, env);
    if (error)
        die(argv[0], error);
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR)
            die("wait4", errno);
    took = now_ns() - start;
    dprintf(fd, "%zu %lld %ld %d\n", index, took, usage.ru_maxrss, status);
}

/* Cuts "a,b,c" into environment strings that preload a, b, c; NULL for "-". */
static size_t preloads_parse(char *list, char **ret)
{
    size_t n = 0;

    for (char *at = strtok(list, ","); at; at = strtok(NULL, ",")) {
        if (n == PRELOADS_MAX)
            die("preloads", E2BIG);
        ret[n] = NULL;
        if (strcmp(at, "-") != 0 && asprintf(&ret[n], "LD_PRELOAD=%s", at) < 0)
            die("preloads", ENOMEM);
        n++;
    }
    return n;
}

int main(int argc, char **argv)
{
    char *preload[PRELOADS_MAX], **env;
    size_t preloads;
    long count;
    int fd;

    if (argc < 5) {
        fprintf(stderr, "usage: launch FD COUNT PRELOAD[,PRELOAD...] PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    fd = atoi(argv[1]); /* not one that the program needs: it is closed there */
    count = atol(argv[2]);
    preloads = preloads_parse(argv[3], preload);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        die("report descriptor", errno);
    env = environment_make();
    for (long i = 0; i < count; i++) {
        for (size_t k = 0; k < preloads; k++) {
            /* Without a preload the free place at the front is skipped. */
            env[0] = preload[k];
            launch_once(fd, k, argv + 4, preload[k] ? env : env + 1);
        }
    }
    return 0;
}
