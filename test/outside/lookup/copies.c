/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of the library that is not the program's malloc from the start redirects no lookup: the
 * program's blocks come from libc. usage: copies LIBRARY local|global|deepbind|namespace
 */
#include "test/outside/check.h"
#include "test/outside/lookup/find.h"

#include <link.h>

static const char *const names[] = {"malloc", "free", "realloc", "prctl", "dlopen", "dlsym"};

int main(int argc, char **argv)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW), *copy, *expected[6];
    void *(*find)(void *, const char *);
    void *(*versioned)(void *, const char *, const char *);
    int flags = RTLD_NOW;

    REQUIRE(argc == 3 && libc);
    for (int i = 0; i < 6; i++)
        expected[i] = dlsym(libc, names[i]);
    flags |= strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL : RTLD_LOCAL;
    flags |= strcmp(argv[2], "deepbind") == 0 ? RTLD_DEEPBIND : 0;
    copy = dlmopen(strcmp(argv[2], "namespace") == 0 ? LM_ID_NEWLM : LM_ID_BASE, argv[1], flags);
    if (!copy)
        SKIP("%s", dlerror());
    find = (void *(*)(void *, const char *))dlsym(copy, "dlsym");
    versioned = (void *(*)(void *, const char *, const char *))dlsym(copy, "dlvsym");
    REQUIRE(find && versioned && find != dlsym);
    for (int i = 0; i < 6; i++) {
        CHECK_SAYS(find(libc, names[i]) == expected[i], "%s", names[i]);
        CHECK_SAYS(dlsym(libc, names[i]) == expected[i], "%s", names[i]);
    }
    CHECK(versioned(libc, "free", BASE_VERSION) == dlvsym(libc, "free", BASE_VERSION));
    CHECK(find(copy, "malloc") != expected[0]); /* by its own handle it is there */
    CHECK(!find(libc, "no_function_has_this_name"));
    free(strdup("text"));
    return check_end();
}
