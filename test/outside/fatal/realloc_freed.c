/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc of a large block that was freed.
 *
 * EXPECT: invalid realloc: 0x[0-9a-f]+ lies in memory that is free
 * ARGS: 300000,1048576,33554432 1,300000,1048576,100000000
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    free(p);
    FATAL_IGNORE(realloc(p, fatal_arg(argc, argv, 2)));
    return FATAL_SURVIVED;
}
