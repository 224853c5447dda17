/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes behind the end of a block: at once a fault, or found when it is freed.
 *
 * EXPECT: heap buffer overflow: 0x[0-9a-f]+ (write|was written,) [0-9]+ bytes behind the end of a
 *         block of [0-9]+ bytes
 * SIGNAL: SIGSEGV|3
 * STACKS: allocated=make
 * ARGS: 1,7,16,100,128,1000,1024,4000,4096,8000,8191,8193,20000,100000,262143 1,16
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1), by = (size_t)planted_arg(argc, argv, 2);

    for (int i = 0; i < PLANTED_TIMES; i++) {
        char *p = make(size);

        touch_write(p + size + by - 1);
        drop(p);
    }
    return PLANTED_SURVIVED;
}
