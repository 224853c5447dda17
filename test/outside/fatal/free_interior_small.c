/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a pointer into the middle of a small block.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ is (inside|not the start)
 * ARGS: 16,24,32,48,64,80,96,100,128,160,200,256,320,500,512,640,1000
 *         1,2,4,7,8,12,15,16,17,24,32,48,64,128,256
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char *v[8];
    size_t size = fatal_arg(argc, argv, 1), offset = fatal_arg(argc, argv, 2);

    for (int i = 0; i < 8; i++)
        v[i] = malloc(size);
    if (offset >= malloc_usable_size(v[2]))
        return FATAL_SENSELESS;
    for (int i = 4; i < 8; i++) /* there is room in the cache */
        free(v[i]);
    free(fatal_names(v[2] + offset));
    return FATAL_SURVIVED;
}
