/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A freed block is resized, asked for its size, or freed by its size.
 *
 * EXPECT: (invalid realloc|malloc_usable_size|double free): 0x[0-9a-f]+ was freed before
 * ARGS: 1,16,100,1000,9000,100000 realloc,shrink,usable,sized
 */
#include "test/outside/fatal/fatal.h"

#include <string.h>

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1);
    const char *how = argc > 2 ? argv[2] : "";
    void *p = fatal_names(malloc(size));

    free(p);
    if (strcmp(how, "realloc") == 0)
        FATAL_IGNORE(realloc(p, size * 2));
    else if (strcmp(how, "shrink") == 0)
        FATAL_IGNORE(realloc(p, size));
    else if (strcmp(how, "sized") == 0)
        free_sized(p, size);
    else
        FATAL_IGNORE(malloc_usable_size(p));
    return FATAL_SURVIVED;
}
