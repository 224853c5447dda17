/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc of a pointer into the middle of a block, to sizes that would stay and that would move.
 *
 * EXPECT: invalid realloc: 0x[0-9a-f]+ is (inside|not the start)
 * ARGS: 32,100,1000,1792,8192,20480,65536,131072,1048576 1,8,16,512,4096,8192,16384,524288
 *         1,32,100,1792,8192,20480,65536,131072,1048576,3000000
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char *p = malloc(fatal_arg(argc, argv, 1));
    size_t offset = fatal_arg(argc, argv, 2);

    if (offset >= malloc_usable_size(p))
        return FATAL_SENSELESS;
    FATAL_IGNORE(realloc(fatal_names(p + offset), fatal_arg(argc, argv, 3)));
    return FATAL_SURVIVED;
}
