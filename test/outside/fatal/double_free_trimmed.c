/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large block whose memory has gone back to the system is freed again.
 *
 * EXPECT: double free: 0x[0-9a-f]+
 * ARGS: 262145,300000,524288,1048576,3000000,33554432
 */
#include "test/outside/fatal/fatal.h"

int main(int argc, char **argv)
{
    void *p = fatal_names(malloc(fatal_arg(argc, argv, 1)));

    free(p);
    malloc_trim(0);
    free(p);
    return FATAL_SURVIVED;
}
