/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that sallocctl looks at. It allocates, frees a part, says "ready", and waits for its
 * standard input to end.
 * usage: worker still | filter | storm | mappings | work | replace
 *   still     waits
 *   filter    waits under seccomp's strict mode, which allows read, write and exit
 *   storm     two threads allocate and free all the time
 *   mappings  splits and joins 600 mappings all the time
 *   work      allocates and frees for each byte that it reads, and says so
 *   replace   has 200 MB, frees half, and replaces the other half, one block after the other
 */
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCKS 20000
#define LIVE   4000
#define MANY   200000

static void *blocks[BLOCKS];

__attribute__((noinline, noclone)) static void *small_block(size_t bytes)
{
    return memset(malloc(bytes), 1, bytes);
}

__attribute__((noinline, noclone)) static void *large_block(size_t bytes)
{
    return memset(malloc(bytes), 2, bytes);
}

static void *storm(void *arg)
{
    unsigned seed = (unsigned)(size_t)arg;
    static __thread void *live[LIVE];

    for (;;) {
        unsigned at = (unsigned)rand_r(&seed) % LIVE, bytes = (unsigned)rand_r(&seed) % 20000 + 1;

        free(live[at]);
        live[at] = bytes % 97 ? small_block(bytes) : large_block(bytes * 40);
    }
    return arg;
}

static void *split_and_join(void *arg)
{
    const size_t page = 4096, count = 600;
    char *p = mmap(NULL, page * count, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    while (p != MAP_FAILED) {
        for (size_t i = 0; i < count; i += 2)
            mprotect(p + page * i, page, PROT_READ | PROT_WRITE);
        mprotect(p, page * count, PROT_READ);
    }
    return arg;
}

static void replace(void)
{
    static void *many[MANY];

    for (int i = 0; i < MANY; i++)
        many[i] = malloc(1000);
    for (int i = 1; i < MANY; i += 2)
        free(many[i]);
    printf("ready\n");
    fflush(stdout);
    for (unsigned seed = 1;;) {
        unsigned at = (unsigned)rand_r(&seed) % (MANY / 2) * 2;

        free(many[at]);
        many[at] = malloc(1000);
    }
}

/* About 800 MiB. */
__attribute__((noinline, noclone)) static void work(void)
{
    for (size_t i = 0; i < 2 * BLOCKS; i++)
        free(i % 50 ? small_block(i % 20000 + 1) : large_block(500000));
    dprintf(1, "done\n");
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "still";
    pthread_t thread;
    char byte;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = i % 500 ? small_block((size_t)(i % 3000) + 1) : large_block(700000);
    for (int i = 0; i < BLOCKS; i += 3)
        free(blocks[i]);
    if (strcmp(mode, "storm") == 0)
        for (size_t i = 1; i <= 2; i++)
            if (pthread_create(&thread, NULL, storm, (void *)i) != 0)
                return 1;
    if (strcmp(mode, "mappings") == 0 && pthread_create(&thread, NULL, split_and_join, NULL) != 0)
        return 1;
    if (strcmp(mode, "replace") == 0)
        replace();
    printf("ready\n");
    fflush(stdout);
    if (strcmp(mode, "filter") == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
        return 1;
    while (read(0, &byte, 1) > 0)
        if (strcmp(mode, "work") == 0)
            work();
    /* The filter forbids the call by which a process ends with all of its threads. */
    return strcmp(mode, "filter") == 0 ? (int)syscall(SYS_exit, 0) : 0;
}
