/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a pointer into the middle of an aligned block.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ is (inside|not the start)
 * ARGS: 32,256,4096,65536,1048576 100,5000,100000,1048576 1,16,32,4096,8192,65536
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    size_t align = fatal_arg(argc, argv, 1), size = fatal_arg(argc, argv, 2);
    char *p = aligned_alloc(align, size);
    size_t offset = fatal_arg(argc, argv, 3);

    if (offset >= malloc_usable_size(p))
        return FATAL_SENSELESS;
    free(fatal_names(p + offset));
    return FATAL_SURVIVED;
}
