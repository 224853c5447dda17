/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pointer behind the last object of a span, where another would begin if there were room: free
 * and realloc take it for none. The span is found by the distances of blocks: objects lie side by
 * side from the start of an aligned page. A block that is guarded may end a page, and the pointer
 * lies behind it.
 *
 * EXPECT: (invalid free|invalid realloc): 0x[0-9a-f]+ is (inside|not the start of a block; [0-9]+
 *         bytes behind the end)
 * ARGS: 48,80,96,112,192,208,320,640 0-1
 */
#include "test/outside/fatal/fatal.h"

#define SPAN 8192ul

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1);
    char *p = malloc(size), *tail;

    free(malloc(size + size / 2)); /* where realloc would go */
    tail = (char *)((uintptr_t)p & ~(SPAN - 1)) + SPAN / size * size;
    fatal_names(tail);
    if (fatal_arg(argc, argv, 2) == 0)
        free(tail);
    else
        tail = realloc(tail, size + size / 2);
    return FATAL_SURVIVED;
}
