/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what most programs with threads do to an allocator, so that a recorder can see which
 * functions of the library that takes (cold_code.py): blocks of many sizes, some cleared, resized,
 * aligned or large, in five threads, and a fork. Proves nothing by itself.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/wait.h>

#define THREADS 4
#define ROUNDS  60
#define BLOCKS  4000
#define LARGE   300000

static void small_blocks(size_t round)
{
    static __thread char *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = 16 + (i * 37 + round * 11) % 3000;

        blocks[i] = i % 9 ? malloc(bytes) : calloc(1, bytes);
        REQUIRE(blocks[i]);
        memset(blocks[i], 1, bytes);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % 5 == 0)
            blocks[i] = realloc(blocks[i], 100 + i * 3);
        free(blocks[i]);
    }
}

static void *work(void *arg)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        char *large;
        void *aligned;

        small_blocks(round);
        large = malloc(LARGE + round * 10000);
        REQUIRE(large);
        memset(large, 1, LARGE);
        large = realloc(large, 3ul * LARGE);
        REQUIRE(large && posix_memalign(&aligned, 64, 100 + round) == 0);
        free(large);
        free(aligned);
    }
    return arg;
}

int main(void)
{
    pthread_t threads[THREADS];
    pid_t child;

    check_begin();
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    work(NULL);
    child = fork();
    REQUIRE(child >= 0);
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    return check_end();
}
