/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads before the start of a large block that follows another one: the page between them is nearer
 * to it.
 *
 * EXPECT: heap buffer underflow: 0x[0-9a-f]+ read 1 bytes before the start of a block of [0-9]+
 *         bytes at 0x[0-9a-f]+$
 * SIGNAL: SIGSEGV
 * STACKS: read=touch_read
 * ARGS: 262144,300000,1000000
 */
#include "test/outside/guarded/planted.h"

/* One block in front of another, with less between them than two of the largest pages and a
 * guard. */
#define NEAR (3 * 65536)

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1);
    char *blocks[PLANTED_TIMES];

    for (int i = 0; i < PLANTED_TIMES; i++)
        blocks[i] = make(size);
    for (int i = 0; i < PLANTED_TIMES; i++)
        for (int k = 0; k < PLANTED_TIMES; k++)
            if (blocks[i] < blocks[k] && blocks[k] - blocks[i] < (long)size + NEAR)
                touch_read(blocks[k] - 1);
    return PLANTED_SURVIVED;
}
