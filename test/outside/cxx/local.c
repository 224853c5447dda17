/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program that opens a C++ library with RTLD_LOCAL: libstdc++ is then in no scope that the
 * allocator could look in, and bad_alloc has to reach the library all the same.
 * usage: local LIBRARY
 */
#include "test/outside/check.h"

int main(int argc, char **argv)
{
    void *handle;
    int (*try)(unsigned long);

    REQUIRE(argc == 2);
    check_begin();
    REQUIRE(dlsym(RTLD_DEFAULT, "_ZSt9terminatev") == NULL); /* no libstdc++ yet */
    handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        check_say("%s", dlerror());
    REQUIRE(handle);
    try = (int (*)(unsigned long))dlsym(handle, "local_try");
    REQUIRE(try);
    CHECK(try(100) == 1);
    CHECK(try(1ul << 62) == 0);
    CHECK(try(1ul << 62) == 0);
    CHECK(try(100) == 1);
    return check_end();
}
