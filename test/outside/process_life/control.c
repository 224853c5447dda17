/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with a control socket, for control.py.
 *
 * usage: control serve       allocates in 2 threads until stdin ends
 *        control fork        forks, says the child's PID, and waits in both until stdin ends
 *        control exit_main   ends its main thread, and a moment later the other one
 *        control close       closes all descriptors, as daemons do, opens a socket of its own of
 *                            the name control.PID, says so, and greets who connects until stdin
 * ends control filter      announces a filter of system calls, says so, waits until stdin ends
 *        control steps       does what lines of stdin name, and says so after each: see `steps`
 */
#include "test/outside/check.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static int stop; /* atomic */

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

#ifdef LARGE_TLS
/* More than the stack of the library's thread has, and in a program at a fixed address an address
 * of the function that is the program's. */
static __thread volatile char large[4 << 20];
#endif

#ifdef OWN_CREATE
__attribute__((visibility("default"))) create_fn pthread_create;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
    create_fn *next = (create_fn *)dlsym(RTLD_NEXT, "pthread_create");

    check_say("own pthread_create");
    return next(thread, attr, body, arg);
}
#endif

static void *worker(void *arg)
{
    uint64_t rng = (uintptr_t)arg;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        void *p = malloc(check_random(&rng) % 5000);

        CHECK_OPAQUE(p);
        free(p);
        usleep(100);
    }
    return NULL;
}

static void wait_for_end(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
}

static void *short_life(void *arg)
{
    (void)arg;
    usleep(300000);
    return NULL;
}

/* Serves on the number that the library's socket had. */
static void take_over(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n =
        snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "control.%d", (int)getpid());
    int fd;

    for (fd = 3; fd < 1024; fd++)
        close(fd);
    for (int i = 0; i < 8; i++) { /* several, of which one has that number */
        fd = socket(AF_UNIX, SOCK_STREAM, 0);
        REQUIRE(fd >= 0);
    }
    for (fd = 3; fd < 11; fd++) {
        address.sun_path[n + 1] = (char)('a' + fd);
        REQUIRE(bind(fd, (struct sockaddr *)&address,
                     (socklen_t)(sizeof(address.sun_family) + 2 + (size_t)n)) == 0);
        REQUIRE(listen(fd, 5) == 0);
    }
    check_say("ready");
    for (;;) {
        struct pollfd p[9] = {{.fd = STDIN_FILENO, .events = POLLIN}};

        for (int i = 1; i < 9; i++)
            p[i] = (struct pollfd){.fd = i + 2, .events = POLLIN};
        REQUIRE(poll(p, 9, -1) > 0);
        if (p[0].revents)
            return;
        for (int i = 1; i < 9; i++) {
            int c = p[i].revents ? accept(p[i].fd, NULL, NULL) : -1;

            if (c >= 0) {
                CHECK(write(c, "mine", 4) == 4);
                close(c);
            }
        }
    }
}

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = -2; /* . and .. */

    REQUIRE(tasks);
    while (readdir(tasks))
        n++;
    closedir(tasks);
    return n;
}

static long pages(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    long n = 0;

    REQUIRE(f && fscanf(f, "%ld", &n) == 1);
    fclose(f);
    return n;
}

static long pages_of_parent;

/* Runs a child that no handler of fork knows. */
static int raw_fork(int (*child)(void))
{
    int status = -1;
    pid_t pid;

    pages_of_parent = pages();
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    REQUIRE(pid >= 0);
    if (!pid)
        _exit(child());
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return status;
}

static int child_filters(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0;
}

/* Slow paths, of which the first finds that the process is a child. */
static int child_traces(void)
{
    for (int i = 0; i < 100; i++) {
        void *p = malloc(1 << 20);

        CHECK_OPAQUE(p);
        free(p);
    }
    return pages_of_parent - pages() < 128 << 8; /* the ring has 256 MiB */
}

static int child_of_fork(void)
{
    pid_t pid = fork();
    int status = -1;

    if (!pid)
        _exit(0);
    waitpid(pid, &status, 0);
    return status;
}

/* Announces a filter. Says whether the library's thread is gone soon. */
static int leave(void)
{
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    for (int i = 0; i < 300 && threads() > 1; i++)
        usleep(1000);
    return threads();
}

static int limit_files(rlim_t n)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = n;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static void steps(void)
{
    char step[64];
    unsigned n = 0;

    check_say("ready");
    while (fgets(step, sizeof(step), stdin)) {
        int result = -1;

        if (sscanf(step, "euid %u", &n) == 1)
            result = seteuid(n);
        else if (sscanf(step, "dumpable %u", &n) == 1)
            result = prctl(PR_SET_DUMPABLE, n, 0, 0, 0);
        else if (sscanf(step, "files %u", &n) == 1)
            result = limit_files(n);
        else if (strcmp(step, "raw filter\n") == 0)
            result = raw_fork(child_filters);
        else if (strcmp(step, "raw trace\n") == 0)
            result = raw_fork(child_traces);
        else if (strcmp(step, "fork\n") == 0)
            result = child_of_fork();
        else if (strcmp(step, "leave\n") == 0)
            result = leave();
        check_say("%d", result);
    }
}

static void at_exit(void)
{
    check_say("handlers ran");
}

int main(int argc, char **argv)
{
    pthread_t threads[2];

#ifdef LARGE_TLS
    create_fn *create = pthread_create;

    large[0] = 1;
    CHECK_OPAQUE(create);
#endif
    check_begin();
    REQUIRE(argc == 2);
    if (strcmp(argv[1], "exit_main") == 0) {
        atexit(at_exit);
        check_say("ready");
        wait_for_end();
        REQUIRE(pthread_create(&threads[0], NULL, short_life, NULL) == 0);
        pthread_exit(NULL);
    }
    if (strcmp(argv[1], "close") == 0) {
        take_over();
        return check_end();
    }
    if (strcmp(argv[1], "steps") == 0) {
        steps();
        return check_end();
    }
    if (strcmp(argv[1], "fork") == 0) {
        pid_t child = fork();

        REQUIRE(child >= 0);
        if (child)
            check_say("child %d", (int)child);
        wait_for_end();
        if (child)
            waitpid(child, NULL, 0);
        return 0;
    }
    if (strcmp(argv[1], "filter") == 0)
        REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    check_say("ready");
    wait_for_end();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return check_end();
}
