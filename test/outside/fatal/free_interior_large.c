/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a pointer into the middle of a large block, on a page boundary and not.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ is inside
 * ARGS: 262145,300000,1048576,33554432
 *         1,8,16,100,4096,8192,12288,65536,131072,262144,524288,1000000,1048575,30000000
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char *p = malloc(fatal_arg(argc, argv, 1));
    size_t offset = fatal_arg(argc, argv, 2);

    if (offset >= malloc_usable_size(p))
        return FATAL_SENSELESS;
    free(fatal_names(p + offset));
    return FATAL_SURVIVED;
}
