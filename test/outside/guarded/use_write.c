/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes to a block that was freed a while ago.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset [0-9]+ of a freed block of [0-9]+ bytes
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write freed=drop allocated=make
 * ARGS: 1,16,100,1024,4096,8192,8193,20000,100000,262144,300000,5000000 0,1,20
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1),
           meanwhile = (size_t)planted_arg(argc, argv, 2);

    for (int i = 0; i < PLANTED_TIMES; i++) {
        char *p = make(size);

        drop(p);
        delay(meanwhile, size);
        touch_write(p + size - 1);
    }
    return PLANTED_SURVIVED;
}
