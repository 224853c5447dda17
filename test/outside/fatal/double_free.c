/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free(a); free(a) as the first thing that a process does.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 0,1,8,16,17,24,32,48,64,100,128,200,256,512,1000,1024,1792,2048,4000,4096,5000,8192,12288
 * ARGS: 16384,32768,65536,100000,131072,262144,262145,300000,524288,1048576,3000000,33554432
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p;

    fatal_pin();
    p = fatal_names(malloc(fatal_arg(argc, argv, 1)));
    free(p);
    free(p);
    return FATAL_SURVIVED;
}
