/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is written to after it was freed, or moved by realloc: found at the latest when its
 * memory is used again.
 *
 * EXPECT: use after free: 0x[0-9a-f]+ was written, at offset \d+ of a freed block of \d+ bytes at
 *         0x
 * ARGS: 1,16,100,1000,9000,100000 0 free,realloc
 * ARGS: 16,100,1000,9000 7 free
 */
#include "test/outside/fatal/fatal.h"

#include <string.h>

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1), at = fatal_arg(argc, argv, 2);
    char *volatile p;

    fatal_pin();
    p = malloc(size);
    if (argc > 3 && strcmp(argv[3], "realloc") == 0)
        FATAL_IGNORE(realloc(p, size * 3 + 1000));
    else
        free(p);
    fatal_names(p);
    p[at]++;
    for (size_t used = 0; used < 200ul << 20; used += size + 200)
        free(malloc(size));
    return FATAL_SURVIVED;
}
