/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork while another thread reads the figures, which takes every lock of the allocator in turn. The
 * child must not inherit one that is held: it allocates from every size class, frees, and asks for
 * memory to be given back, and is killed by its alarm if it hangs.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/wait.h>

enum { FORKS = 150, CHILD_SECONDS = 20 };

static int done; /* atomic */

static void *reader(void *unused)
{
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED))
        REQUIRE(mallinfo2().arena > 0);
    return unused;
}

static void child(void)
{
    void *blocks[40];

    alarm(CHILD_SECONDS);
    for (size_t size = 16; size < 300000; size += size / 8 + 16) {
        for (size_t i = 0; i < 40; i++)
            REQUIRE((blocks[i] = malloc(size)) != NULL);
        for (size_t i = 0; i < 40; i++)
            free(blocks[i]);
    }
    malloc_trim(0);
    _exit(0);
}

int main(void)
{
    pthread_t thread;

    check_begin();
    free(malloc(1)); /* so that there is something to report */
    REQUIRE(pthread_create(&thread, NULL, reader, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t pid = fork();
        int status;

        REQUIRE(pid >= 0);
        if (pid == 0)
            child();
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK_SAYS(WIFEXITED(status) && WEXITSTATUS(status) == 0, "fork %d: status %d", i, status);
        if (check_failures)
            break;
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    return check_end();
}
