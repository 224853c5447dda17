/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large block is freed again after another one was freed.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 262145,300000,524288,1048576,3000000,33554432
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char *a, *b;

    a = fatal_names(malloc(fatal_arg(argc, argv, 1)));
    b = malloc(fatal_arg(argc, argv, 1));
    free(a);
    free(b);
    free(a);
    return FATAL_SURVIVED;
}
