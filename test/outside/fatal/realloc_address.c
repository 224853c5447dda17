/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc of addresses where nothing is.
 *
 * EXPECT: invalid realloc: 0x[0-9a-f]+ was not allocated
 * ARGS: 0x1,0x8,0x10,0x1000,0x100000000,0x7ffffffff000,0x800000000000,0x123400000000000
 *         1,100,1000000
 * ARGS: 0xdead000000000000,0xffff800000000000,0xfffffffffffff000,0xfffffffffffffff0 1,100,1000000
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    FATAL_IGNORE(realloc(fatal_names((void *)fatal_arg(argc, argv, 1)), fatal_arg(argc, argv, 2)));
    return FATAL_SURVIVED;
}
