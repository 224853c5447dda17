/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reallocarray of a local variable.
 *
 * EXPECT: invalid realloc: 0x[0-9a-f]+ was not allocated
 */
#include "test/outside/fatal/fatal.h"

int main(void)
{
    char block[64];

    FATAL_IGNORE(reallocarray(fatal_names(block), 10, 10));
    return FATAL_SURVIVED;
}
