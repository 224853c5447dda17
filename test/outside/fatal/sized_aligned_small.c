/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_aligned_sized of a small block with a size or an alignment of another class, where the block
 * could go to its cache without a look at either.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ (is a block of|was not allocated with alignment)
 * SURVIVES: yes
 * ARGS: 64 640,4000,100000
 * ARGS: 4096 64
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(aligned_alloc(64, 64));

    free(aligned_alloc(64, 64)); /* so that there is a cache */
    free_aligned_sized(p, fatal_arg(argc, argv, 1), fatal_arg(argc, argv, 2));
    return FATAL_SURVIVED;
}
