/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose heap is replaced all the time and stays the same, but for a part that grows on
 * request. It says "ready" when it has done what was asked, and waits for the next line of input:
 *   turn  replaces as many blocks of each function as it has, at random
 *   grow  the same, and adds 5 % to the blocks of grown_function
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS 12
#define BLOCKS    4000
#define MANY      100000 /* of the function that grows */

static uint64_t seed;

#define FUNCTION(name)                                                                             \
    __attribute__((noinline, noclone)) static void *name(size_t bytes)                             \
    {                                                                                              \
        return memset(malloc(bytes), 1, 16);                                                       \
    }

FUNCTION(function_0)
FUNCTION(function_1)
FUNCTION(function_2)
FUNCTION(function_3)
FUNCTION(function_4)
FUNCTION(function_5)
FUNCTION(function_6)
FUNCTION(grown_function)
FUNCTION(function_8)
FUNCTION(function_9)
FUNCTION(function_10)
FUNCTION(function_11)

static struct kind {
    void *(*make)(size_t);
    size_t bytes;
    unsigned most, count; /* blocks that it is to have, and has */
    void **blocks;
} kinds[FUNCTIONS] = {
    {function_0, 16, BLOCKS, 0, NULL},   {function_1, 32, BLOCKS, 0, NULL},
    {function_2, 64, BLOCKS, 0, NULL},   {function_3, 100, BLOCKS, 0, NULL},
    {function_4, 200, BLOCKS, 0, NULL},  {function_5, 400, BLOCKS, 0, NULL},
    {function_6, 1000, BLOCKS, 0, NULL}, {grown_function, 64, MANY, 0, NULL},
    {function_8, 700, BLOCKS, 0, NULL},  {function_9, 2000, BLOCKS, 0, NULL},
    {function_10, 300, BLOCKS, 0, NULL}, {function_11, 4000, BLOCKS, 0, NULL},
};

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((seed >> 33) % below);
}

/* Makes as many blocks as there were and are to be more; from one line, so that their stacks are
 * the same, whether they are more or take the place of others. */
static void turn(struct kind *k)
{
    for (unsigned n = k->most; n; n--) {
        unsigned at = k->count < k->most ? k->count++ : draw(k->count);

        free(k->blocks[at]);
        k->blocks[at] = k->make(k->bytes);
    }
}

int main(int argc, char **argv)
{
    char line[16] = "";

    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    for (int i = 0; i < FUNCTIONS; i++)
        kinds[i].blocks = calloc(4 * MANY, sizeof(void *));
    do {
        for (int i = 0; i < FUNCTIONS; i++) {
            if (*line == 'g' && kinds[i].most >= MANY && kinds[i].most < 3 * MANY)
                kinds[i].most += kinds[i].most / 20;
            turn(&kinds[i]);
        }
        printf("ready\n");
        fflush(stdout);
    } while (fgets(line, sizeof(line), stdin));
    return 0;
}
