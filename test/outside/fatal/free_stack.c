/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a local variable.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ was not allocated
 */
#include "test/outside/fatal/fatal.h"

int main(void)
{
    char block[64];

    free(fatal_names(block));
    return FATAL_SURVIVED;
}
