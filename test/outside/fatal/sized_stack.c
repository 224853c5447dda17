/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free_sized of a local variable.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ was not allocated
 * ARGS: 1,16,100,8192,1048576
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    char block[64];

    free_sized(fatal_names(block), fatal_arg(argc, argv, 1));
    return FATAL_SURVIVED;
}
