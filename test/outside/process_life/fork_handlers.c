/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atfork handlers that allocate. Registered from .preinit_array, before those of the library, their
 * prepare handler runs after the library's and their child and parent handlers before it;
 * registered from main, the other way round. Either way they can allocate, and fork does not become
 * slow: before it returns nobody else needs to run, so there is nothing to wait for. What is
 * counted is how often the thread gave up its CPU, not time, which others may use.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* Where the library waits for anything while fork is in progress, it does so in 50 pieces or
 * more. */
enum { FORKS = 40, WAITS_EACH = 10 };

static int ran; /* handlers */

static void handler(void)
{
    unsigned char *v[100];

    for (size_t i = 0; i < 100; i++) {
        size_t n = 20 + i * 37 + (i % 25 == 0 ? 400000 : 0);

        v[i] = i % 2 ? malloc(n) : calloc(1, n);
        REQUIRE(v[i]);
        memset(v[i], (int)i, n);
    }
    for (size_t i = 0; i < 100; i++) {
        REQUIRE(v[i][0] == i);
        v[i] = realloc(v[i], 2000);
        REQUIRE(v[i] && v[i][0] == i);
        free(v[i]);
    }
    ran++;
}

static void preinit(void)
{
    if (pthread_atfork(handler, handler, handler) != 0)
        _exit(1);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(void) = preinit;

/* How often this thread has waited. */
static long waits(void)
{
    struct rusage usage;

    REQUIRE(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

/* How often each fork waited on average. */
static double forks(void)
{
    long waited = 0;

    for (int i = 0; i < FORKS; i++) {
        long before = waits();
        pid_t pid = fork();
        int status;

        REQUIRE(pid >= 0);
        if (pid == 0) {
            alarm(60);
            handler();
            CHECK_SAYS(waits() < WAITS_EACH, "%ld waits", waits());
            _exit(check_failures != 0);
        }
        waited += waits() - before;
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_SAYS(status == 0, "status %#x", (unsigned)status);
    }
    return (double)waited / FORKS;
}

int main(void)
{
    double before, both;

    check_begin();
    alarm(100);
    before = forks();
    REQUIRE(pthread_atfork(handler, handler, handler) == 0);
    both = forks();
    check_say("%.2f waits a fork, %.2f with more handlers", before, both);
    CHECK(before < WAITS_EACH && both < WAITS_EACH);
    CHECK(ran == FORKS * 2 + FORKS * 4); /* in the parent: prepare and parent */
    return check_end();
}
