/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that makes, resizes and frees blocks all the time, and whose only pointer to what it
 * keeps is in a block that moves. It is to be stopped at any instruction: nothing is lost at any.
 * usage: leaker_moving KIND (see works below; without one, their names are printed)
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT    8
#define THREADS 3

/* Forgets the block before it is freed: the library alone has it then. */
static void release(void **block)
{
    void *p = *block;

    *block = NULL;
    free(p);
}

static void make_and_free(size_t size)
{
    void *volatile block = malloc(size);

    if (block)
        memset(block, 1, 16);
    release((void **)&block);
}

static void large(void)
{
    make_and_free(2u << 20);
}

static void medium(void)
{
    make_and_free(100000);
}

static void small(void)
{
    make_and_free(100);
}

static void aligned(void)
{
    void *volatile block = aligned_alloc(1u << 16, 1u << 20);

    release((void **)&block);
}

static void zeroed(void)
{
    void *volatile block = calloc(1, 1500000);

    release((void **)&block);
}

/* Blocks of `size` bytes in a table that grows from one length to another. */
static void table(size_t from, size_t to, size_t size)
{
    void **volatile at = malloc(from);

    memset((void *)at, 0, from);
    for (int i = 0; i < KEPT; i++)
        at[i] = malloc(size);
    for (size_t bytes = from; bytes < to; bytes += bytes / 4)
        at = realloc((void *)at, bytes + bytes / 4);
    at = realloc((void *)at, from);
    for (int i = 0; i < KEPT; i++)
        release(&at[i]);
    release((void **)&at);
}

static void large_table(void)
{
    table(3u << 20, 30u << 20, 64);
}

static void copied_table(void)
{
    table(1100000, 2u << 20, 64);
}

static void medium_table(void)
{
    table(40000, 1000000, 5000);
}

static void small_table(void)
{
    table(64, 30000, 64);
}

static const struct work {
    const char *name;
    void (*run)(void);
} works[] = {
    {"large", large},
    {"medium", medium},
    {"small", small},
    {"aligned", aligned},
    {"zeroed", zeroed},
    {"large_table", large_table},
    {"copied_table", copied_table},
    {"medium_table", medium_table},
    {"small_table", small_table},
};

#define WORKS (sizeof(works) / sizeof(*works))

static void *all(void *arg)
{
    for (size_t i = *(size_t *)arg;; i++)
        works[i % WORKS].run();
    return NULL;
}

int main(int argc, char **argv)
{
    static size_t first[THREADS];
    pthread_t thread;

    if (argc < 2) {
        for (size_t i = 0; i < WORKS; i++)
            puts(works[i].name);
        puts("threads");
        return 0;
    }
    if (write(1, "0 0 ready\n", 10) < 0)
        return 1;
    for (size_t i = 0; i < WORKS; i++)
        while (strcmp(argv[1], works[i].name) == 0)
            works[i].run();
    for (size_t i = 1; i < THREADS; i++) {
        first[i] = i * WORKS / THREADS;
        if (pthread_create(&thread, NULL, all, &first[i]) != 0)
            return 1;
    }
    all(&first[0]);
    return 0;
}
