/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program that opens a C++ library with RTLD_LOCAL: libstdc++ is then in no scope that the
 * allocator could look in, and bad_alloc has to reach the library all the same. OWN_MALLOC: it also
 * has a malloc of its own, where the operators must get their blocks, and ask the loader for
 * libstdc++'s once, not each time: in vain that is slow, and the loader allocates its message.
 * usage: local LIBRARY
 */
#include "test/outside/check.h"

#ifdef OWN_MALLOC
#pragma GCC visibility push(default)
static char arena[16 << 20] __attribute__((aligned(16))); /* never reused: the program is short */
static size_t used;
static long mallocs, frees;

void *malloc(size_t size)
{
    size_t *p = (size_t *)(arena + used);

    if (size > sizeof(arena) - 32 || used > sizeof(arena) - 32 - size)
        return NULL;
    mallocs++;
    used += 16 + ((size + 15) & ~(size_t)15);
    *p = size;
    return p + 2;
}

void free(void *p)
{
    frees += !!p;
}

void *calloc(size_t count, size_t size)
{
    return size && count > SIZE_MAX / size ? NULL : malloc(count * size); /* new memory is zero */
}

void *realloc(void *p, size_t size)
{
    void *q = malloc(size);
    size_t old = p ? ((size_t *)p)[-2] : 0;

    if (q && p) {
        memcpy(q, p, old < size ? old : size);
        free(p);
    }
    return q;
}
#pragma GCC visibility pop

static void find(const char *name, void **ret)
{
    *ret = dlsym(RTLD_DEFAULT, name);
    REQUIRE(*ret);
}

/* Each operator by its name: those that are used, and take more than the size, do not look at
 * it. */
static void test_own(void)
{
    static const char *const names[] = {"_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t",
                                        "_ZnamRKSt9nothrow_t"};
    void (*end)(void *);

    find("_ZdaPv", (void **)&end);
    for (int i = 0; i < 4; i++) {
        void *(*make)(size_t, const void *);

        find(names[i], (void **)&make);
        end(make(100, names)); /* looks for libstdc++'s */
        for (long n = 0; n < 100; n++) {
            long before = mallocs, freed = frees;

            end(make(100, names));
            CHECK_SAYS(mallocs == before + 1 && frees == freed + 1, "%s: %ld mallocs, %ld frees",
                       names[i], mallocs - before, frees - freed);
        }
    }
}
#endif

int main(int argc, char **argv)
{
    void *handle;
    int (*try)(unsigned long);

    REQUIRE(argc == 2);
#ifdef OWN_MALLOC
    REQUIRE(dlsym(RTLD_DEFAULT, "salloc_version"));
    test_own();
#else
    check_begin();
#endif
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
