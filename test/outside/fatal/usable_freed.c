/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_usable_size of a large block that was freed.
 *
 * EXPECT: malloc_usable_size: 0x[0-9a-f]+ lies in memory that is free
 * SURVIVES: yes
 * ARGS: 300000,1048576,33554432
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    free(p);
    FATAL_IGNORE(malloc_usable_size(p));
    return FATAL_SURVIVED;
}
