/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees a pointer into a block, before or behind it.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ is (inside a block of [0-9]+ bytes, not its start|not the start
 *         of a block)
 * SIGNAL: SIGABRT
 * STACKS: freed=drop allocated=make
 * ARGS: 100,1024,8192,8193,200000 1,16,-16
 * ARGS: 100,1024,4000,10000,100000 4000
 * ARGS: 300000,2000000 1,16,4096
 */
#include "test/outside/guarded/planted.h"

int main(int argc, char **argv)
{
    char *p = make((size_t)planted_arg(argc, argv, 1));

    drop(p + planted_arg(argc, argv, 2));
    return PLANTED_SURVIVED;
}
