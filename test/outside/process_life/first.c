/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first call that a process makes of the library is any of its functions, which finds nothing
 * set up; what it gives serves as well as what later calls give. usage: first FUNCTION
 */
#include "test/outside/check.h"

static bool is(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    void *p = NULL;
    size_t n = 100;

    if (is(name, "realloc")) {
        p = realloc(NULL, n);
    } else if (is(name, "realloc_nothing")) {
        p = realloc(NULL, 0);
        n = 0;
    } else if (is(name, "reallocarray")) {
        p = reallocarray(NULL, n, 1);
    } else if (is(name, "calloc")) {
        p = calloc(n, 1);
    } else if (is(name, "memalign")) {
        p = memalign(64, n);
    } else if (is(name, "aligned_alloc")) {
        p = aligned_alloc(64, 2 * n - n % 64);
    } else if (is(name, "posix_memalign")) {
        REQUIRE(posix_memalign(&p, 4096, n) == 0);
    } else if (is(name, "malloc_usable_size")) {
        REQUIRE(malloc_usable_size(NULL) == 0);
        p = malloc(n);
    } else if (is(name, "free")) {
        free(NULL);
        p = malloc(n);
    } else {
        return 2;
    }
    check_begin();
    CHECK(p != NULL);
    CHECK(malloc_usable_size(p) >= n);
    memset(p, 1, n);
    p = realloc(p, 1000);
    REQUIRE(p);
    CHECK(n == 0 || *(char *)p == 1);
    free(p);
    return check_end();
}
