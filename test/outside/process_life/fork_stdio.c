/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork while other threads hold stdio's locks and allocate: fork wants those locks after it has run
 * the prepare handlers, so a library that holds locks of its own by then can dead-lock. Proves that
 * many forks get through, none of them slow.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/wait.h>

static int stop; /* atomic */

static bool stopped(void)
{
    return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void *flush(void *arg)
{
    while (!stopped())
        fflush(NULL);
    return arg;
}

static void *files(void *arg)
{
    while (!stopped()) {
        FILE *f = fopen("/dev/null", "w");

        REQUIRE(f);
        fprintf(f, "%d", 1);
        fclose(f);
        free(malloc(300000));
    }
    return arg;
}

static void *streams(void *arg)
{
    while (!stopped()) {
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);

        REQUIRE(f);
        for (int i = 0; i < 300; i++)
            fprintf(f, "%0200d", i);
        fclose(f);
        free(text);
    }
    return arg;
}

int main(void)
{
    void *(*const work[])(void *) = {flush, files, streams, streams};
    double slowest = 0, end = check_now() + 5;
    pthread_t threads[4];
    int forks = 0;

    check_begin();
    alarm(60); /* a dead-lock ends the test */
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
    while (check_now() < end) {
        double start = check_now();
        int status;
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0) {
            void *v[100];

            alarm(20);
            for (size_t i = 0; i < 100; i++)
                v[i] = malloc(i * 1000);
            for (size_t i = 0; i < 100; i++)
                free(v[i]);
            _exit(0);
        }
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_SAYS(status == 0, "status %#x", (unsigned)status);
        slowest = check_now() - start > slowest ? check_now() - start : slowest;
        forks++;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    check_say("%d forks, the slowest took %.0f ms", forks, slowest * 1000);
    CHECK(forks >= 20);
    CHECK(slowest < 2);
    return check_end();
}
