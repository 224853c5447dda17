/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes on and on behind the end of a sampled block that is too large for a slot; after so many
 * others of its size, and moved by realloc or not.
 *
 * EXPECT: heap buffer overflow: 0x[0-9a-f]+ write [0-9]{1,7} bytes behind the end of a block of
 *         [0-9]{6,8} bytes at 0x[0-9a-f]+$
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write
 * ARGS: 262145,300000,1048576,5000000 0,40 fresh
 * ARGS: 5000000 0,40 moved
 */
#include "test/outside/guarded/planted.h"

#define MOVED 2 /* times as large, and room to grow again: 1/8 */

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1);
    char *p;

    delay((size_t)planted_arg(argc, argv, 2), size);
    p = make(size);
    if (argc > 3 && strcmp(argv[3], "moved") == 0) {
        make(size); /* is in the way */
        p = resize(p, size * MOVED);
        size *= MOVED;
    }
    for (size_t i = size; i < size + size / 4 + 200000; i++)
        touch_write(p + i);
    return PLANTED_SURVIVED;
}
