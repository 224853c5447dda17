/* SPDX-License-Identifier: Apache-2.0 */
/*
 * posix_spawn, popen and system while threads allocate: the child of the kernel's vfork shares the
 * heap until it executes. Proves that heap and children are whole.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

enum { LIVE = 200, THREADS = 3, SPAWNS = 150 };

static int stop; /* atomic */

static void *work(void *arg)
{
    static __thread unsigned char *v[LIVE];
    uint64_t seed = (uintptr_t)arg * 31;

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        uint64_t r = check_random(&seed);
        size_t k = r % LIVE;

        if (v[k])
            REQUIRE(v[k][0] == (unsigned char)k);
        free(v[k]);
        v[k] = malloc(1 + (r >> 9) % (r >> 58 ? 3000 : 500000));
        REQUIRE(v[k]);
        v[k][0] = (unsigned char)k;
    }
    return NULL;
}

int main(void)
{
    char *command[] = {"sh", "-c", "exit 7", NULL};
    pthread_t threads[THREADS];

    check_begin();
    alarm(100);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < SPAWNS; i++) {
        char text[16] = "";
        FILE *pipe;
        int status;
        pid_t pid;

        REQUIRE(posix_spawnp(&pid, "sh", NULL, NULL, command, environ) == 0);
        REQUIRE(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        if (i % 3)
            continue;
        pipe = popen("echo heard", "r");
        REQUIRE(pipe);
        CHECK(fgets(text, sizeof(text), pipe) && strcmp(text, "heard\n") == 0);
        CHECK(pclose(pipe) == 0);
        status = system("exit 3");
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return check_end();
}
