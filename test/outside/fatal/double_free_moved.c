/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large block is freed after realloc has moved it.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 */
#include "test/outside/fatal/fatal.h"

int main(void)
{
    void *p = fatal_names(malloc(1 << 20)), *neighbour = malloc(1 << 20);

    if (realloc(p, 64 << 20) == p) /* it has room to grow: nothing was freed */
        return FATAL_SENSELESS;
    free(p);
    free(neighbour);
    return FATAL_SURVIVED;
}
