/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_sized of a large block with another size than it was allocated with.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ is a block of [0-9]+ bytes, freed as one of [0-9]+
 * SURVIVES: yes
 * ARGS: 300000,33554432 300001,299999,1048576,2000000
 * ARGS: 1048576 1048575,1048577,524288,1073741824
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    free_sized(p, fatal_arg(argc, argv, 2));
    return FATAL_SURVIVED;
}
