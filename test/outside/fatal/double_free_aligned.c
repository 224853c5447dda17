/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free(a); free(a) of an aligned block.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 16,64,512,4096,8192,65536,1048576 1,64,1000,8192,100000,1048576
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p;
    size_t align = fatal_arg(argc, argv, 1), size = fatal_arg(argc, argv, 2);

    fatal_pin();
    p = fatal_names(aligned_alloc(align, size));
    free(p);
    free(p);
    return FATAL_SURVIVED;
}
