/* SPDX-License-Identifier: Apache-2.0 */
/*
 * malloc_usable_size of a local variable.
 *
 * EXPECT: malloc_usable_size: 0x[0-9a-f]+ was not allocated
 * SURVIVES: yes
 */
#include "test/outside/fatal/fatal.h"

int main(void)
{
    char block[64];

    FATAL_IGNORE(malloc_usable_size(fatal_names(block)));
    return FATAL_SURVIVED;
}
