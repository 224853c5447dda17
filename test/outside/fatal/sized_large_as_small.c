/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_sized of a large block with the size of a small one.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ is a block of [0-9]+ bytes, freed as one of [0-9]+
 * SURVIVES: yes
 * ARGS: 300000,1048576,33554432 0,1,16,100,1000,8192,100000,262144
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    free_sized(p, fatal_arg(argc, argv, 2));
    malloc_trim(0); /* finds blocks in caches of other classes */
    return FATAL_SURVIVED;
}
