/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small block that is back on its span is freed again: found when it comes back a second time.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 16,64,200,1024,2048,8192,32768,65536
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *v[64];
    size_t size = fatal_arg(argc, argv, 1);

    fatal_pin();
    for (size_t i = 0; i < 64; i++)
        v[i] = malloc(size);
    fatal_names(v[20]);
    free(v[20]);
    malloc_trim(0); /* the caches are empty: the object is on its span, which others keep alive */
    free(v[20]);
    malloc_trim(0);
    return FATAL_SURVIVED;
}
