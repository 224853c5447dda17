/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes on and on behind the end of a large block.
 *
 * EXPECT: heap buffer overflow: 0x[0-9a-f]+ write [0-9]{1,5} bytes behind the end of a block of
 *         [0-9]{6,7} bytes at 0x[0-9a-f]+$
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write
 * ARGS: 262145,300000,1048576,5000000
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1);
    char *p = make(size);

    for (size_t i = size; i < size + 200000; i++)
        touch_write(p + i);
    return PLANTED_SURVIVED;
}
