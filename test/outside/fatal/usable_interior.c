/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_usable_size of a pointer into the middle of a block.
 *
 * EXPECT: malloc_usable_size: 0x[0-9a-f]+ is (inside|not the start)
 * SURVIVES: yes
 * ARGS: 32,100,1000,1792,8192,20480,65536,131072,1048576 1,8,16,512,4096,8192,16384,524288
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char *p = malloc(fatal_arg(argc, argv, 1));
    size_t offset = fatal_arg(argc, argv, 2);

    if (offset >= malloc_usable_size(p))
        return FATAL_SENSELESS;
    FATAL_IGNORE(malloc_usable_size(fatal_names(p + offset)));
    return FATAL_SURVIVED;
}
