/* SPDX-License-Identifier: Apache-2.0 */
/*
 * atfork handlers that allocate. Registered from .preinit_array, before those of the library, their
 * prepare handler runs after the library's and their child and parent handlers before it; registered
 * from main, the other way round. Either way they can allocate, and fork does not become slow: before
 * it returns nobody else needs to run, so there is nothing to wait for.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/wait.h>

enum { FORKS = 40 };

/* A fork with its child takes about a millisecond; 50 ms is the shortest time that the library waits
 * for anything when fork is in progress. */
#define SECONDS_EACH 0.025

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

static double forks(void)
{
    double start = check_now();

    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        int status;

        REQUIRE(pid >= 0);
        if (pid == 0) {
            alarm(20);
            handler();
            _exit(check_failures != 0);
        }
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_SAYS(status == 0, "status %#x", (unsigned)status);
    }
    return (check_now() - start) / FORKS;
}

int main(void)
{
    double before, both;

    check_begin();
    alarm(100);
    before = forks();
    CHECK_SAYS(before < SECONDS_EACH, "%.1f ms a fork", before * 1000);
    REQUIRE(pthread_atfork(handler, handler, handler) == 0);
    both = forks();
    CHECK_SAYS(both < SECONDS_EACH, "%.1f ms a fork", both * 1000);
    CHECK(ran == FORKS * 2 + FORKS * 4); /* in the parent: prepare and parent */
    return check_end();
}
