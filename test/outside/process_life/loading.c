/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries that come and go. usage: loading FOLDER  (where this folder's libraries are)
 *
 *   a library whose constructor, which runs under the loader's lock, waits for a thread that
 *   allocates RTLD_DEEPBIND: blocks do not cross allocators
 *   the search path of a library that calls dlopen is its own (DT_RUNPATH)
 *   libraries with thread-local storage, opened and closed while threads end
 */
#include "test/outside/check.h"

#include <pthread.h>

static void *open_library(const char *folder, const char *name, int flags)
{
    char path[4096];
    void *handle;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    handle = dlopen(path, flags);
    if (!handle)
        check_say("%s", dlerror());
    REQUIRE(handle);
    return handle;
}

static void *use(void *function)
{
    void (*f)(void) = (void (*)(void))function;

    f();
    free(malloc(1000));
    return NULL;
}

static void test_constructor(const char *folder)
{
    open_library(folder, "libconstructor.so", RTLD_NOW);
}

static void test_deepbind(const char *folder)
{
    void *outer = open_library(folder, "libouter.so", RTLD_NOW | RTLD_DEEPBIND);
    void *(*load)(const char *, int) = (void *(*)(const char *, int))dlsym(outer, "outer_load");
    void *inner;
    void (*take)(void *);
    void *(*give)(size_t);

    REQUIRE(load);
    inner = load("libinner.so", RTLD_NOW | RTLD_DEEPBIND); /* found by outer's search path only */
    REQUIRE(inner);
    take = (void (*)(void *))dlsym(inner, "inner_take");
    give = (void *(*)(size_t))dlsym(inner, "inner_give");
    REQUIRE(take && give);
    for (size_t n = 1; n < 4000000; n *= 7) {
        void *p = give(n);

        take(malloc(n));
        REQUIRE(p);
        CHECK(malloc_usable_size(p) >= n);
        free(p);
    }
}

static void test_threads(const char *folder)
{
    for (int i = 0; i < 200; i++) {
        void *handle = open_library(folder, "libtls.so", RTLD_NOW);
        void *function = dlsym(handle, "tls_use");
        pthread_t threads[3];

        REQUIRE(function);
        for (int k = 0; k < 3; k++)
            REQUIRE(pthread_create(&threads[k], NULL, use, function) == 0);
        use(function);
        for (int k = 0; k < 3; k++)
            pthread_join(threads[k], NULL);
        CHECK(dlclose(handle) == 0);
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    check_begin();
    alarm(60); /* a dead-lock ends the test */
    test_constructor(argv[1]);
    test_deepbind(argv[1]);
    test_threads(argv[1]);
    return check_end();
}
