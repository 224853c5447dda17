/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library opened late, in a process that runs on another malloc and whose spare static TLS is
 * used up but for what the library may need. Its functions work when called by name; the process's
 * own malloc is untouched. usage: late LIBRARY FOLDER
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <pthread.h>

/* Libraries of the test with 64 bytes of static TLS each, beyond any reserve of libc's. */
enum { EATERS = 60 };

static void *(*their_malloc)(size_t);
static void (*their_free)(void *);

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    unsigned char *v[64] = {NULL};

    for (int i = 0; i < 30000; i++) {
        uint64_t r = check_random(&seed);
        size_t k = r % 64;

        if (v[k])
            REQUIRE(v[k][0] == k);
        their_free(v[k]);
        v[k] = their_malloc(1 + (r >> 10) % (r >> 57 ? 2000 : 500000));
        REQUIRE(v[k]);
        v[k][0] = (unsigned char)k;
        free(malloc(100));
    }
    for (int k = 0; k < 64; k++)
        their_free(v[k]);
    return NULL;
}

/* Functions that would go back to the program's malloc if it had one of its own: by name, they stay
 * among themselves. */
static void test_family(void *handle)
{
    void *(*their_new)(size_t) = (void *(*)(size_t))dlsym(handle, "_Znwm");
    void (*their_delete)(void *, size_t) = (void (*)(void *, size_t))dlsym(handle, "_ZdlPvm");
    void (*their_free_sized)(void *, size_t) =
        (void (*)(void *, size_t))dlsym(handle, "free_sized");
    void *(*their_reallocarray)(void *, size_t, size_t) =
        (void *(*)(void *, size_t, size_t))dlsym(handle, "reallocarray");
    enum salloc_ownership (*owner)(const void *) =
        (enum salloc_ownership(*)(const void *))dlsym(handle, "salloc_get_ownership");
    unsigned char *p;

    REQUIRE(their_new && their_delete && their_free_sized && their_reallocarray && owner);
    for (int i = 0; i < 1000; i++) {
        p = their_new(100);
        REQUIRE(owner(p) == SALLOC_OWNED);
        their_delete(p, 100);
        p = their_malloc(100000);
        their_free_sized(p, 100000);
        p = their_reallocarray(NULL, 10, 10);
        REQUIRE(owner(p) == SALLOC_OWNED);
        p = their_reallocarray(p, 100, 100);
        REQUIRE(owner(p) == SALLOC_OWNED);
        their_free(p);
    }
}

/* Copies a library: each copy is one of its own to the loader. */
static void *open_copy(const char *from, int n)
{
    char path[64], buf[65536];
    FILE *in = fopen(from, "r"), *out;
    size_t got;
    void *handle;

    snprintf(path, sizeof(path), "/tmp/salloc-late-%d-%d.so", (int)getpid(), n);
    out = fopen(path, "w");
    REQUIRE(in && out);
    while ((got = fread(buf, 1, sizeof(buf), in)) > 0)
        REQUIRE(fwrite(buf, 1, got, out) == got);
    fclose(in);
    REQUIRE(fclose(out) == 0);
    handle = dlopen(path, RTLD_NOW);
    unlink(path);
    return handle;
}

int main(int argc, char **argv)
{
    pthread_t threads[3];
    void *before, *last = NULL, *handle, *eaters[EATERS];
    char path[4096];
    int n = 0;

    REQUIRE(argc == 3);
    before = malloc(1000);
    snprintf(path, sizeof(path), "%s/libeater.so", argv[2]);
    while (n < EATERS && (last = open_copy(path, n)))
        eaters[n++] = last;
    REQUIRE(n > 0 && n < EATERS); /* it is used up */
    dlclose(eaters[n - 1]);       /* room for one of 64 bytes */
    handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        check_say("%s", dlerror());
    REQUIRE(handle);
    their_malloc = (void *(*)(size_t))dlsym(handle, "malloc");
    their_free = (void (*)(void *))dlsym(handle, "free");
    REQUIRE(their_malloc && their_malloc != malloc);
    for (uintptr_t i = 0; i < 3; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    test_family(handle);
    free(before);
    CHECK(dlclose(handle) == 0);
    /* It is never unloaded: its blocks stay. */
    before = their_malloc(100);
    their_free(before);
    return check_end();
}
