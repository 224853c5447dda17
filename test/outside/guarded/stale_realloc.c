/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes through a pointer that realloc has made stale.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ write at offset 0 of a freed block of [0-9]+ bytes
 * SIGNAL: SIGSEGV
 * STACKS: written=touch_write freed=resize allocated=make
 * ARGS: 10 11,100,8192,9000,1000000
 * ARGS: 8000 10,8001,100000
 * ARGS: 100000 200,200000,900000
 * ARGS: 300000 200,600000
 * ARGS: 1000000 100000,3000000
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1), next = (size_t)planted_arg(argc, argv, 2);

    for (int i = 0; i < PLANTED_TIMES; i++) {
        char *p = make(size), *wall = make(size), *q = resize(p, next);

        if (q == p) /* it grew where it was */
            continue;
        touch_write(p);
        drop(q);
        drop(wall);
    }
    return PLANTED_SURVIVED;
}
