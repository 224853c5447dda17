/* SPDX-License-Identifier: Apache-2.0 */
/* How an interposer finds the function behind it: one of these routes, which FIND_ROUTE names. */
#ifndef SA_TEST_FIND_H
#define SA_TEST_FIND_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __x86_64__
#define BASE_VERSION "GLIBC_2.2.5"
#else
#define BASE_VERSION "GLIBC_2.17"
#endif

enum find_route {
    FIND_NEXT,
    FIND_NEXT_VERSION,
    FIND_HANDLE,
    FIND_HANDLE_VERSION,
    FIND_OTHER_LIBRARY, /* which looks RTLD_NEXT up for it */
    FIND_ROUTES,
};

extern void *helper_find(const char *name) __attribute__((weak));

/* The function with the version that it came with. */
__attribute__((unused)) static void *find_version(void *handle, const char *name)
{
    static const char *const versions[] = {BASE_VERSION, "GLIBC_2.3.4", "GLIBC_2.27"};
    void *f = NULL;

    for (int i = 0; i < 3 && !f; i++) /* dlmopen has the second, pkey_mprotect the third */
        f = dlvsym(handle, name, versions[i]);
    return f;
}

__attribute__((unused)) static void *find_by(enum find_route route, const char *name)
{
    switch (route) {
    case FIND_NEXT:
        return dlsym(RTLD_NEXT, name);
    case FIND_NEXT_VERSION:
        return find_version(RTLD_NEXT, name);
    case FIND_HANDLE:
        return dlsym(dlopen("libc.so.6", RTLD_LAZY), name);
    case FIND_HANDLE_VERSION:
        return find_version(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), name);
    case FIND_OTHER_LIBRARY:
        return helper_find ? helper_find(name) : NULL;
    default:
        return NULL;
    }
}

#endif
