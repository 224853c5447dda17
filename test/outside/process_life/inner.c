/* SPDX-License-Identifier: Apache-2.0 */
/* A library for loading.c: frees what others allocated, and the other way round. */
#include <stdlib.h>

__attribute__((visibility("default"))) void inner_take(void *p);
__attribute__((visibility("default"))) void *inner_give(size_t n);

void inner_take(void *p)
{
    free(p);
}

void *inner_give(size_t n)
{
    return malloc(n);
}
