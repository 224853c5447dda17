/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block is freed with a size that it was not allocated with, if only by a byte: small ones, too.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ is a block of \d+ bytes, freed as one of \d+
 * ARGS: 1 0,2,16,500000
 * ARGS: 16 15,17,24
 * ARGS: 100 99,101,104,112
 * ARGS: 5000 4999,5001,16
 * ARGS: 200000 199999,200001,300000
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    size_t size = fatal_arg(argc, argv, 1), claimed = fatal_arg(argc, argv, 2);
    void *p = malloc(size);

    if (size == 1 && claimed == 0)
        return FATAL_SENSELESS; /* a block of no bytes has one */
    fatal_names(p);
    free_sized(p, claimed);
    return FATAL_SURVIVED;
}
