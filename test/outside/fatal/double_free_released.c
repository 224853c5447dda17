/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small block whose span has gone back to the system is freed again.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 16,64,200,1024,2048,8192
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    enum { BLOCKS = 3000 };
    void *v[BLOCKS];
    size_t size = fatal_arg(argc, argv, 1);

    fatal_pin();
    for (size_t i = 0; i < BLOCKS; i++)
        v[i] = malloc(size);
    for (size_t i = 0; i < BLOCKS; i++)
        free(v[i]);
    malloc_trim(0);
    fatal_names(v[BLOCKS / 2]);
    free(v[BLOCKS / 2]);
    malloc_trim(0);
    return FATAL_SURVIVED;
}
