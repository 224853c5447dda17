/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork while threads allocate. usage: fork_threads ALLOCATING FORKING FORKS|seconds
 *
 * Proves that every child can allocate, free what it inherited, make threads and fork again, and
 * that the parent goes on, however many threads fork at once.
 */
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

enum { LIVE = 200, THREADS_MAX = 32, CHILD_SECONDS = 20 };

static int stop;       /* atomic */
static int forks_each; /* 0: as many as there is time for */
static double fork_until;
static void *inherited[LIVE];

static void churn(uint64_t *seed, int n)
{
    unsigned char *v[LIVE] = {NULL};
    size_t size[LIVE] = {0};

    for (int i = 0; i < n; i++) {
        uint64_t r = check_random(seed);
        size_t k = r % LIVE;

        if (v[k])
            REQUIRE(v[k][0] == k && v[k][size[k] - 1] == k);
        free(v[k]);
        size[k] = 1 + (r >> 20) % (r >> 60 ? 3000 : 600000);
        v[k] = malloc(size[k]);
        REQUIRE(v[k]);
        v[k][0] = v[k][size[k] - 1] = (unsigned char)k;
    }
    for (size_t k = 0; k < LIVE; k++)
        free(v[k]);
}

static void *allocate(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
        churn(&seed, 500);
    return NULL;
}

static void *child_thread(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    churn(&seed, 200);
    return NULL;
}

static void child(uint64_t seed, bool again)
{
    pthread_t thread;
    int status;
    pid_t pid;

    alarm(CHILD_SECONDS);
    churn(&seed, 2000);
    for (int i = 0; i < LIVE; i++)
        free(inherited[i]);
    REQUIRE(pthread_create(&thread, NULL, child_thread, (void *)7) == 0);
    churn(&seed, 200);
    pthread_join(thread, NULL);
    if (again) {
        pid = fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            alarm(CHILD_SECONDS);
            churn(&seed, 300);
            _exit(check_failures != 0);
        }
        REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    _exit(check_failures != 0);
}

static void *forker(void *arg)
{
    for (int i = 0; forks_each ? i < forks_each : check_now() < fork_until; i++) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0)
            child((uintptr_t)arg * 1000 + (uintptr_t)i, i % 4 == 0);
        REQUIRE(pid > 0);
        while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
            ;
        CHECK_SAYS(status == 0, "fork %d: status %#x", i, (unsigned)status);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t allocating[THREADS_MAX], forking[THREADS_MAX];
    int a, f;

    REQUIRE(argc == 4);
    check_begin();
    a = atoi(argv[1]);
    f = atoi(argv[2]);
    forks_each = atoi(argv[3]);
    fork_until = check_now() + check_seconds(8);
    alarm((unsigned)check_seconds(8) + 150); /* a dead-lock ends the test */
    REQUIRE(a <= THREADS_MAX && f <= THREADS_MAX);
    for (size_t i = 0; i < LIVE; i++)
        inherited[i] = malloc(i * i * 10);
    for (uintptr_t i = 0; i < (uintptr_t)a; i++)
        REQUIRE(pthread_create(&allocating[i], NULL, allocate, (void *)(i + 1)) == 0);
    for (uintptr_t i = 0; i < (uintptr_t)f; i++)
        REQUIRE(pthread_create(&forking[i], NULL, forker, (void *)(i + 1)) == 0);
    for (int i = 0; i < f; i++)
        pthread_join(forking[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < a; i++)
        pthread_join(allocating[i], NULL);
    return check_end();
}
