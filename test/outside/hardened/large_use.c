/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a large block that was freed, and is in quarantine.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ read at offset 1000 of a freed block of [0-9]{6,7} bytes at
 *         0x[0-9a-f]+$
 * SIGNAL: SIGSEGV
 * STACKS: read=touch_read
 * ARGS: 262145,300000,1048576,5000000 0,3
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    size_t size = (size_t)planted_arg(argc, argv, 1), times = (size_t)planted_arg(argc, argv, 2);
    char *p = make(size);

    drop(p);
    delay(times, size);
    touch_read(p + 1000);
    return PLANTED_SURVIVED;
}
