/* SPDX-License-Identifier: Apache-2.0 */
/* A library that looks functions up for others. It is preloaded, or opened by a program. */
#include "test/outside/lookup/find.h"

extern void *helper_find_by(enum find_route route, const char *name);

void *helper_find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

void *helper_find_by(enum find_route route, const char *name)
{
    return route == FIND_OTHER_LIBRARY ? dlvsym(RTLD_DEFAULT, name, BASE_VERSION)
                                       : find_by(route, name);
}
