/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of the end of a large block.
 *
 * EXPECT: (invalid|double) free: 0x[0-9a-f]+
 * ARGS: 262145,300000,524288,1048576,3000000,33554432
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char *p = malloc(fatal_arg(argc, argv, 1)), *end = p + malloc_usable_size(p);

    free(fatal_names(end)); /* whatever is there: nobody has allocated it */
    return FATAL_SURVIVED;
}
