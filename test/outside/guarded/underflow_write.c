/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes before the start of a block: at once a fault, or found when it is freed.
 *
 * EXPECT: heap buffer underflow: 0x[0-9a-f]+ (write|was written,) [0-9]+ bytes before the start of
 *         a block of [0-9]+ bytes
 * SIGNAL: SIGSEGV|3
 * STACKS: allocated=make
 * ARGS: 1,7,16,100,128,1000,1024,4000,4096,8000,8192,8193,100000,262144 1,16
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1), by = (size_t)planted_arg(argc, argv, 2);

    for (int i = 0; i < PLANTED_TIMES; i++) {
        char *p = make(size);

        touch_write(p - by);
        drop(p);
    }
    return PLANTED_SURVIVED;
}
