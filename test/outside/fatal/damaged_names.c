/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sampled block is freed twice after the loader's names of the loaded libraries were damaged,
 * which are blocks of the heap, too: reading one faults, and the report goes on without and ends as
 * any other.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * NAMES: damaged
 * ARGS: 64,300000
 */
#include "test/outside/fatal/fatal.h"

#include <link.h>

int main(int argc, char **argv)
{
    void *p;

    fatal_pin();
    p = fatal_names(malloc(fatal_arg(argc, argv, 1)));
    for (struct link_map *map = _r_debug.r_map; map; map = map->l_next)
        map->l_name = (char *)8;
    free(p);
    free(p);
    return FATAL_SURVIVED;
}
