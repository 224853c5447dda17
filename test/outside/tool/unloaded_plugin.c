/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin: NAME_allocates returns a block. Two of them have the same layout. */
#include <stdlib.h>
#include <string.h>

#define JOIN(a, b)  a##b
#define NAMED(a, b) JOIN(a, b)

__attribute__((noinline, noclone)) static void *block(size_t bytes)
{
    return memset(malloc(bytes), 1, bytes);
}

__attribute__((visibility("default"))) void *NAMED(NAME, _allocates)(size_t bytes)
{
    char *p = block(bytes);

    p[0] = 2;
    return p;
}
