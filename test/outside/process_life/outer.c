/* SPDX-License-Identifier: Apache-2.0 */
/* A library for loading.c: calls dlopen, with a search path of its own. */
#include <dlfcn.h>

__attribute__((visibility("default"))) void *outer_load(const char *name, int flags);

void *outer_load(const char *name, int flags)
{
    void *handle = dlopen(name, flags);

    /* Not a tail call: the loader must see this library as the caller. */
    __asm__ volatile("" ::: "memory");
    return handle;
}
