/* SPDX-License-Identifier: Apache-2.0 */
/* The functions with flags that programs know from jemalloc and tcmalloc, called as such programs
 * do: by weak references. */
#include "test/outside/check.h"

#define LG_ALIGN(n) (n)
#define ZERO        0x40
#define ARENA_TOO   (3 << 20 | 2 << 8) /* an arena and a thread cache, which have no effect */

extern void *mallocx(size_t size, int flags) __attribute__((weak));
extern void *rallocx(void *p, size_t size, int flags) __attribute__((weak));
extern size_t xallocx(void *p, size_t size, size_t extra, int flags) __attribute__((weak));
extern size_t sallocx(const void *p, int flags) __attribute__((weak));
extern void dallocx(void *p, int flags) __attribute__((weak));
extern void sdallocx(void *p, size_t size, int flags) __attribute__((weak));
extern size_t nallocx(size_t size, int flags) __attribute__((weak));
extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static const int all_flags[] = {0,           ARENA_TOO,           ZERO,        LG_ALIGN(3),
                                LG_ALIGN(6), LG_ALIGN(12) | ZERO, LG_ALIGN(16)};

static bool is_zero(const unsigned char *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (p[i])
            return false;
    return true;
}

static size_t align_of(int flags)
{
    return (size_t)1 << (flags & 63);
}

/* Allocates, checks and frees a block of each size. */
static void test_one(size_t size, int flags)
{
    size_t usable, promised = nallocx(size, flags);
    unsigned char *p = mallocx(size, flags), *q;

    REQUIRE(p);
    usable = sallocx(p, flags);
    CHECK((uintptr_t)p % align_of(flags) == 0);
    CHECK(!(flags & ZERO) || is_zero(p, 0, usable));
    CHECK_SAYS(promised >= size && usable >= size, "%zu: %zu, %zu", size, promised, usable);
    /* Guarded blocks and a page of guard are smaller than promised, and never larger. */
    CHECK_SAYS(usable <= promised, "%zu flags %x: %zu, not %zu", size, flags, usable, promised);
    memset(p, 0x5a, size);
    CHECK(xallocx(p, size, 0, flags) == usable);
    q = rallocx(p, 3 * size, flags);
    REQUIRE(q && (uintptr_t)q % align_of(flags) == 0);
    for (size_t i = 0; i < size; i++)
        CHECK(q[i] == 0x5a);
    CHECK(!(flags & ZERO) || is_zero(q, usable, sallocx(q, flags)));
    q = rallocx(q, size, flags);
    REQUIRE(q && q[0] == 0x5a && q[size - 1] == 0x5a);
    dallocx(q, flags);
    p = mallocx(size, flags);
    sdallocx(p, size, flags);
    p = mallocx(size, flags);
    sdallocx(p, sallocx(p, flags), flags);
    p = mallocx(size, flags);
    sdallocx(p, nallocx(size, flags), flags);
}

int main(void)
{
    check_begin();
    REQUIRE(mallocx && rallocx && xallocx && sallocx && dallocx && sdallocx && nallocx);
    CHECK(!mallctl); /* programs that need all of jemalloc look for this one, too */
    for (size_t i = 0; i < sizeof(all_flags) / sizeof(all_flags[0]); i++)
        for (size_t size = 1; size < 2000000; size = size * 3 + 1)
            test_one(size, all_flags[i]);
    CHECK(mallocx((size_t)1 << 62, 0) == NULL && nallocx((size_t)1 << 63, 0) == 0);
    CHECK(mallocx(100, LG_ALIGN(62)) == NULL && nallocx(100, LG_ALIGN(62)) == 0);
    free(mallocx(100, 0));
    dallocx(malloc(100), 0);
    return check_end();
}
