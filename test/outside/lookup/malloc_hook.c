/* SPDX-License-Identifier: Apache-2.0 */
/* A library that counts allocations, and finds the malloc behind it by FIND_ROUTE. */
#include "test/outside/lookup/find.h"

#include <stdlib.h>
#include <string.h>

static unsigned long calls; /* atomic */
static _Thread_local int looking;
static char early[1 << 16] __attribute__((aligned(16)));
static size_t early_used;

extern unsigned long malloc_hook_calls(void);

unsigned long malloc_hook_calls(void)
{
    return __atomic_load_n(&calls, __ATOMIC_RELAXED);
}

/* The lookup may allocate. */
static void *early_block(size_t size)
{
    void *p = early + early_used;

    early_used += (size + 15) & ~15ul;
    if (early_used > sizeof(early))
        abort();
    return p;
}

static void *next(void **at, const char *name)
{
    void *f = __atomic_load_n(at, __ATOMIC_RELAXED);

    __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
    if (f || looking)
        return f;
    looking = 1;
    f = find_by(FIND_ROUTE, name);
    looking = 0;
    if (!f)
        abort();
    __atomic_store_n(at, f, __ATOMIC_RELAXED);
    return f;
}

void *malloc(size_t size)
{
    static void *f;
    void *(*g)(size_t) = (void *(*)(size_t))next(&f, "malloc");

    return g ? g(size) : early_block(size);
}

void *calloc(size_t n, size_t size)
{
    static void *f;
    void *(*g)(size_t, size_t) = (void *(*)(size_t, size_t))next(&f, "calloc");

    return g ? g(n, size) : early_block(n * size);
}

void *realloc(void *p, size_t size)
{
    static void *f;
    void *(*g)(void *, size_t) = (void *(*)(void *, size_t))next(&f, "realloc");

    if (!g || ((char *)p >= early && (char *)p < early + sizeof(early)))
        abort();
    return g(p, size);
}

void free(void *p)
{
    static void *f;
    void (*g)(void *);

    if ((char *)p >= early && (char *)p < early + sizeof(early))
        return;
    g = (void (*)(void *))next(&f, "free");
    if (g)
        g(p);
}

/* A pair inside the library: its own functions, which call what it has found. */
extern char *malloc_hook_copy(const char *text);

char *malloc_hook_copy(const char *text)
{
    static void *f;
    void *(*g)(size_t) = (void *(*)(size_t))next(&f, "malloc");

    return strcpy(g(strlen(text) + 1), text);
}
