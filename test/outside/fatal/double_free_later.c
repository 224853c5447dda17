/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free(a); free(b); free(a) of small blocks: found at the latest when the caches are emptied.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 16,64,200,1024,2048,8192,32768,65536,262144
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *a, *b;
    size_t size = fatal_arg(argc, argv, 1);

    fatal_pin();
    a = fatal_names(malloc(size));
    b = malloc(size);
    free(a);
    free(b);
    free(a);        /* not the topmost one in the cache, so this may pass... */
    malloc_trim(0); /* ... but not both ways back to the span */
    return FATAL_SURVIVED;
}
