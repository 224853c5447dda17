/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a pointer into the middle of a block of a class above 1 KiB, whose spans have several
 * pages or whose blocks are whole pages.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ is (inside|not the start)
 * ARGS: 1025,1152,1280,1536,1792,2048,2304,3000,3072,4096,5120,6144,8192,9000,12288,16384,20480
 *         1,8,16,64,128,256,512,1024,2048,4096,8192,12288,16384,32768,65536,131072
 * ARGS: 24576,32768,40960,65536,98304,131072,262144
 *         1,8,16,64,128,256,512,1024,2048,4096,8192,12288,16384,32768,65536,131072
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
    for (int i = 4; i < 8; i++)
        free(v[i]);
    free(fatal_names(v[2] + offset));
    return FATAL_SURVIVED;
}
