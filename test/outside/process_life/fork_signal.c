/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork in a signal handler that has interrupted malloc anywhere, in one and in several threads.
 * Proves that it neither hangs nor waits long, and that the heap is whole afterwards, here and in
 * the child (which only ends: a handler must not allocate). How long is counted in waits, which the
 * library chooses, and not in time, which depends on what else runs. usage: fork_signal THREADS
 */
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LIVE = 512, THREADS_MAX = 8, FORKS = 300 };

/*
 * Where the interrupted code holds what others need, the library gives up after 2000 waits of a
 * twentieth of a millisecond. That must be the exception.
 */
#define MEAN_WAITS 500

static int stop, forks, failed; /* atomic */
static long waited;             /* atomic */

/* How often this thread has waited. */
static long waits(void)
{
    struct rusage usage = {.ru_nvcsw = 0};

    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void handle(int number)
{
    int saved = errno, status = -1;
    long before = waits();
    pid_t pid = fork();

    (void)number;
    if (pid == 0)
        _exit(0);
    __atomic_fetch_add(&waited, waits() - before, __ATOMIC_RELAXED);
    if (pid > 0) {
        while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
            ;
        __atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED);
    }
    if (status != 0)
        __atomic_fetch_add(&failed, 1, __ATOMIC_RELAXED);
    errno = saved;
}

static void *work(void *arg)
{
    static __thread unsigned char *v[LIVE];
    static __thread size_t size[LIVE];
    uint64_t seed = (uintptr_t)arg * 1000000;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t r = check_random(&seed);
        size_t k = r % LIVE;

        if (v[k])
            REQUIRE(v[k][0] == (unsigned char)k && v[k][size[k] - 1] == (unsigned char)k);
        free(v[k]);
        size[k] = 1 + (r >> 9) % (r >> 59 ? 1000 : 600000);
        v[k] = malloc(size[k]);
        REQUIRE(v[k]);
        v[k][0] = v[k][size[k] - 1] = (unsigned char)k;
    }
    for (size_t k = 0; k < LIVE; k++)
        free(v[k]);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    pthread_t threads[THREADS_MAX];
    double start;
    int n;

    REQUIRE(argc == 2);
    check_begin();
    alarm(100);
    n = atoi(argv[1]);
    REQUIRE(n <= THREADS_MAX && sigaction(SIGUSR1, &action, NULL) == 0);
    for (uintptr_t i = 0; i < (uintptr_t)n; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    start = check_now();
    for (int sent = 0; __atomic_load_n(&forks, __ATOMIC_RELAXED) < FORKS; sent++) {
        /* One at a time: what is measured is a fork, not a queue of them. */
        int before = __atomic_load_n(&forks, __ATOMIC_RELAXED);

        pthread_kill(threads[sent % n], SIGUSR1);
        while (__atomic_load_n(&forks, __ATOMIC_RELAXED) == before)
            usleep(200);
        usleep((useconds_t)(sent * 37 % 1000));
    }
    check_say("%.1f ms and %ld waits a fork", (check_now() - start) * 1000 / FORKS, waited / FORKS);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    CHECK(waited / FORKS < MEAN_WAITS);
    CHECK(failed == 0);
    return check_end();
}
