/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large block that has been merged with its free neighbours is freed again.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 0-5 0-2
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    /* The order in which the three neighbours are freed; the middle one is freed again. */
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    size_t order = fatal_arg(argc, argv, 1), again = fatal_arg(argc, argv, 2);
    void *v[3];

    for (int i = 0; i < 3; i++)
        v[i] = malloc(1 << 20);
    fatal_names(v[again]);
    for (int i = 0; i < 3; i++)
        free(v[orders[order][i]]);
    free(v[again]);
    return FATAL_SURVIVED;
}
