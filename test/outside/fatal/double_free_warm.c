/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free(a); free(a) in a process whose caches are warm.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 0,1,8,16,17,24,32,48,64,100,128,200,256,512,1000,1024,1792,2048,4000,4096,5000,8192,12288
 * ARGS: 16384,32768,65536,100000,131072,262144
 * ARGS: 262145,300000,1048576
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *warm[256], *p;
    size_t size = fatal_arg(argc, argv, 1);

    fatal_pin();
    for (int round = 0; round < 8; round++) {
        for (size_t i = 0; i < 256; i++)
            warm[i] = malloc(i % 2 ? size : i * 16);
        for (size_t i = 0; i < 256; i++)
            free(warm[i]);
    }
    p = fatal_names(malloc(size));
    free(p);
    free(p);
    return FATAL_SURVIVED;
}
