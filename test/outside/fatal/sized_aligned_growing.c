/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_aligned_sized with an alignment that the block was not allocated with, while mixed spans
 * grow. The block is on a span of its class.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ (is a block of|was not allocated with alignment)
 * SURVIVES: yes
 * ARGS: 128,4096
 */
#include "test/outside/fatal/fatal.h"

enum {
    OWN = 2000,
    SHORT = 500,
    SHORT_BLOCKS = 120000,
    LONG = 3000,
    LONG_BLOCKS = 10000,
    SIZE = 1088
};

static void *own[OWN], *shorts[SHORT_BLOCKS];

int main(int argc, char **argv)
{
    for (int i = 0; i < OWN; i++)
        own[i] = malloc(SIZE);
    for (int i = 0; i < SHORT_BLOCKS; i++)
        shorts[i] = malloc(SHORT);
    for (int i = 0; i < SHORT_BLOCKS; i++)
        if (i % 10)
            free(shorts[i]);
    for (int i = 0; i < LONG_BLOCKS; i++)
        FATAL_IGNORE(malloc(LONG));
    free(own[1]); /* so that there is a cache */
    free_aligned_sized(fatal_names(own[OWN / 2]), fatal_arg(argc, argv, 1), SIZE);
    return FATAL_SURVIVED;
}
