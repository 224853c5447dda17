/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc of a block of a size class that was freed last, to one that is longer: also where a block
 * in use would grow in place.
 *
 * EXPECT: (double free|invalid realloc): 0x[0-9a-f]+ (was freed before \(block of (at most )?[0-9]+
 *         bytes\)|lies in memory that is free)
 * ARGS: 10,1000,40000 60000,70000,300000
 * ARGS: 65536,70000 80000,131072,262144,300000,1048576
 * ARGS: 262144 262145,300000,1048576
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    fatal_pin();
    free(p);
    FATAL_IGNORE(realloc(p, fatal_arg(argc, argv, 2)));
    return FATAL_SURVIVED;
}
