/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_aligned_sized of a large block with another size, or with an alignment that it was not
 * allocated with.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ (is a block of|was not allocated with alignment)
 * SURVIVES: yes
 * ARGS: 65536 65536 1048575,1048577,2097152
 * ARGS: 65536,8192 131072,1048576 1048576
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(aligned_alloc(fatal_arg(argc, argv, 1), 1 << 20));

    free_aligned_sized(p, fatal_arg(argc, argv, 2), fatal_arg(argc, argv, 3));
    return FATAL_SURVIVED;
}
