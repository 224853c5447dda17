/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free(a); free(a) where a is the nth block freed: wherever the caches happen to fill up, overflow
 * or grow, the second free is found.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 64 0-140,200,255,256,257,300,399
 * ARGS: 1024 0-70
 * ARGS: 32768 0-20,30-40
 * ARGS: 262144 0-20
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    enum { BLOCKS = 400 };
    void *v[BLOCKS];
    size_t size = fatal_arg(argc, argv, 1), nth = fatal_arg(argc, argv, 2);

    fatal_pin();
    for (size_t i = 0; i < BLOCKS; i++)
        v[i] = malloc(size);
    for (size_t i = 0; i < nth; i++)
        free(v[i]);
    fatal_names(v[nth]);
    free(v[nth]);
    free(v[nth]);
    return FATAL_SURVIVED;
}
