/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_usable_size of a pointer behind the last object of a span, as in free_tail.c.
 *
 * EXPECT: malloc_usable_size: 0x[0-9a-f]+ is (inside|not the start of a block; [0-9]+ bytes behind
 *         the end)
 * SURVIVES: yes
 * ARGS: 48,80,96,112,192,208,320,640
 */
#include "test/outside/fatal/fatal.h"

#define SPAN 8192ul

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1);
    char *p = malloc(size), *tail;

    tail = (char *)((uintptr_t)p & ~(SPAN - 1)) + SPAN / size * size;
    return malloc_usable_size(fatal_names(tail)) == 0 ? FATAL_SURVIVED : 1;
}
