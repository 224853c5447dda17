/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of addresses where nothing is, some of them not even addresses to the processor; before and
 * after the first allocation.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ was not allocated
 * ARGS: 0x1,0x8,0x10,0x1000,0x100000000,0x7ffffffff000,0x800000000000,0x123400000000000 0,1
 * ARGS: 0xdead000000000000,0xffff800000000000,0xfffffffffffff000,0xfffffffffffffff0 0,1
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    if (fatal_arg(argc, argv, 2))
        free(malloc(100));
    free(fatal_names((void *)fatal_arg(argc, argv, 1)));
    return FATAL_SURVIVED;
}
