/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_usable_size of addresses where nothing is.
 *
 * EXPECT: malloc_usable_size: 0x[0-9a-f]+ was not allocated
 * SURVIVES: yes
 * ARGS: 0x1,0x8,0x10,0x1000,0x100000000,0x7ffffffff000,0x800000000000,0x123400000000000
 * ARGS: 0xdead000000000000,0xffff800000000000,0xfffffffffffff000,0xfffffffffffffff0
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    FATAL_IGNORE(malloc_usable_size(fatal_names((void *)fatal_arg(argc, argv, 1))));
    return FATAL_SURVIVED;
}
