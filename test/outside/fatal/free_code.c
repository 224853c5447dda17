/* SPDX-License-Identifier: Apache-2.0 */
/*
 * free of a function.
 *
 * EXPECT: invalid free: 0x[0-9a-f]+ was not allocated
 */
#include "test/outside/fatal/fatal.h"

int main(void)
{
    free(fatal_names((void *)(uintptr_t)main));
    return FATAL_SURVIVED;
}
