/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads behind the end of a block. Only a fault can tell, so not within the alignment of its end.
 *
 * EXPECT: heap buffer overflow: 0x[0-9a-f]+ read [0-9]+ bytes behind the end of a block of [0-9]+
 *         bytes
 * SIGNAL: SIGSEGV
 * STACKS: read=touch_read allocated=make
 * ARGS: 16,64,1024,4096,8192,8208,40000,262144 1,16
 * ARGS: 1,7,100,1000,8000,9001,100001 16
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1), by = (size_t)planted_arg(argc, argv, 2);

    for (int i = 0; i < PLANTED_TIMES; i++) {
        char *p = make(size);

        touch_read(p + size + by - 1);
        drop(p);
    }
    return PLANTED_SURVIVED;
}
