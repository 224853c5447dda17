/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte behind the end of a block is written, the first one or a later one, and the block is then
 * freed, resized, or asked for its size. 0 as the last argument: the byte becomes zero, as behind a
 * string that is one too long.
 *
 * EXPECT: heap buffer overflow: 0x[0-9a-f]+ was written, (behind the end of a block of at
 *         most|[017] bytes behind the end of a block of) \d+ bytes at 0x
 * ARGS: 1,7,8,9,16,24,25,100,104,105,1000,4088,4096,32768,100000,262136,300000,1000001 0,1,7
 *         free,realloc,usable,sized 1
 * ARGS: 1,8,24,100,104,105,1000,300000 0 free 0
 */
#include "test/outside/fatal/fatal.h"

#include <string.h>

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1), behind = fatal_arg(argc, argv, 2);
    const char *how = argc > 3 ? argv[3] : "";
    unsigned char *p = fatal_names(malloc(size));

    p[size + behind] = fatal_arg(argc, argv, 4) ? p[size + behind] ^ 0x55 : 0;
    if (strcmp(how, "free") == 0)
        free(p);
    else if (strcmp(how, "realloc") == 0)
        FATAL_IGNORE(realloc(p, size * 2));
    else if (strcmp(how, "sized") == 0)
        free_sized(p, size);
    else
        FATAL_IGNORE(malloc_usable_size(p));
    return FATAL_SURVIVED;
}
