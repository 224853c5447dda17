/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_sized of a large block with the size of a small one: the fast path cannot look, but the
 * fault is found at the latest when the caches are emptied.
 *
 * EXPECT: (sized|invalid) free: 0x[0-9a-f]+
 * ARGS: 300000,1048576,33554432 0,1,16,100,1000,8192,100000,262144
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    free_sized(p, fatal_arg(argc, argv, 2));
    malloc_trim(0);
    return FATAL_SURVIVED;
}
