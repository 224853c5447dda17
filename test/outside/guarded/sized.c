/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees a block with a size that it was not allocated with, though of the same class.
 *
 * EXPECT: sized free: 0x[0-9a-f]+ is a block of [0-9]+ bytes, freed as one of [0-9]+
 * SIGNAL: 3
 * STACKS: allocated=make freed=main
 * ARGS: 100 99,101,112,1000
 * ARGS: 8192 8191,8193,100
 * ARGS: 20000 19999,20481
 * ARGS: 300000 300001
 */
#include "test/outside/guarded/planted.h"

void free_sized(void *p, size_t size);

int main(int argc, char **argv)
{
    free_sized(make((size_t)planted_arg(argc, argv, 1)), (size_t)planted_arg(argc, argv, 2));
    return PLANTED_SURVIVED;
}
