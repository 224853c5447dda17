/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that cannot be served: sizes and counts that overflow, alignments that are wrong or
 * beyond any address space. Proves that each gives the value and the errno that C and POSIX say,
 * and that nothing that exists is touched.
 */
#include "test/outside/check.h"

#include <errno.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Too much for any process; in memory, so that the compiler does not argue. */
static volatile size_t too_much[] = {
    SIZE_MAX,
    SIZE_MAX - 1,
    SIZE_MAX - 7,
    SIZE_MAX - 15,
    SIZE_MAX - 16,
    SIZE_MAX - 31,
    SIZE_MAX - 4095,
    SIZE_MAX - 4096,
    SIZE_MAX - 8191,
    SIZE_MAX - 8192,
    SIZE_MAX - 65535,
    SIZE_MAX - (1ul << 20),
    SIZE_MAX - (2ul << 20),
    SIZE_MAX - (1ul << 30),
    SIZE_MAX / 2 + 1,
    SIZE_MAX / 2 + 2,
    (size_t)PTRDIFF_MAX + 1,
    PTRDIFF_MAX,
    PTRDIFF_MAX - 1,
    PTRDIFF_MAX - 4096,
    PTRDIFF_MAX - 8192,
    PTRDIFF_MAX - (1 << 20),
    1ul << 62,
    1ul << 56,
    1ul << 48,
    (1ul << 48) - 1,
};

/* Products beyond SIZE_MAX; the last ones wrap to something small. */
static volatile size_t overflowing[][2] = {
    {SIZE_MAX, 2},
    {2, SIZE_MAX},
    {SIZE_MAX, SIZE_MAX},
    {SIZE_MAX / 2 + 1, 2},
    {2, SIZE_MAX / 2 + 1},
    {1ul << 32, 1ul << 32},
    {(1ul << 32) + 1, 1ul << 32},
    {SIZE_MAX / 16 + 2, 16},
    {16, SIZE_MAX / 16 + 2},
    {SIZE_MAX / 24 + 2, 24},
    {1ul << 63, 2},
    {3, SIZE_MAX / 3 + 1},
};

#define FAILS_WITH(call, error)                                                                    \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK((call) == NULL);                                                                     \
        CHECK_SAYS(errno == (error), "errno is %d", errno);                                        \
    } while (0)

static void test_sizes(void)
{
    for (size_t i = 0; i < COUNT(too_much); i++) {
        size_t n = too_much[i];
        int failures = check_failures;
        void *untouched = (void *)0x1234;

        FAILS_WITH(malloc(n), ENOMEM);
        FAILS_WITH(calloc(1, n), ENOMEM);
        FAILS_WITH(calloc(n, 1), ENOMEM);
        FAILS_WITH(realloc(NULL, n), ENOMEM);
        FAILS_WITH(reallocarray(NULL, 1, n), ENOMEM);
        FAILS_WITH(valloc(n), ENOMEM);
        FAILS_WITH(pvalloc(n), ENOMEM);
        for (size_t align = 1; align <= 1ul << 21; align *= 8) {
            FAILS_WITH(memalign(align, n), ENOMEM);
            FAILS_WITH(aligned_alloc(align, n), ENOMEM);
            if (align < sizeof(void *))
                continue;
            errno = 1234;
            CHECK(posix_memalign(&untouched, align, n) == ENOMEM);
            CHECK(untouched == (void *)0x1234 && errno == ENOMEM);
        }
        if (check_failures != failures)
            check_say("    with size %#zx", n);
    }
    for (size_t i = 0; i < COUNT(overflowing); i++) {
        int failures = check_failures;

        FAILS_WITH(calloc(overflowing[i][0], overflowing[i][1]), ENOMEM);
        FAILS_WITH(reallocarray(NULL, overflowing[i][0], overflowing[i][1]), ENOMEM);
        if (check_failures != failures)
            check_say("    with %#zx times %#zx", overflowing[i][0], overflowing[i][1]);
    }
}

/* A block survives whatever realloc could not do with it. */
static void test_kept(void)
{
    static const size_t sizes[] = {1, 24, 100, 1000, 5000, 30000, 200000, 400000, 3000000};

    for (size_t s = 0; s < COUNT(sizes); s++) {
        unsigned char *p = malloc(sizes[s]);
        size_t usable = malloc_usable_size(p);
        bool same = true;

        REQUIRE(p);
        for (size_t i = 0; i < usable; i++)
            p[i] = (unsigned char)(i * 7 + s);
        for (size_t i = 0; i < COUNT(too_much); i++) {
            FAILS_WITH(realloc(p, too_much[i]), ENOMEM);
            FAILS_WITH(reallocarray(p, too_much[i], 1), ENOMEM);
        }
        for (size_t i = 0; i < COUNT(overflowing); i++)
            FAILS_WITH(reallocarray(p, overflowing[i][0], overflowing[i][1]), ENOMEM);
        CHECK(malloc_usable_size(p) == usable);
        for (size_t i = 0; i < usable; i++)
            same = same && p[i] == (unsigned char)(i * 7 + s);
        CHECK_SAYS(same, "block of %zu bytes", sizes[s]);
        free(p);
    }
}

static void test_wrong_alignments(void)
{
    static volatile size_t wrong[] = {0,
                                      3,
                                      5,
                                      6,
                                      7,
                                      9,
                                      12,
                                      24,
                                      48,
                                      100,
                                      4095,
                                      4097,
                                      12288,
                                      SIZE_MAX,
                                      SIZE_MAX - 1,
                                      SIZE_MAX / 2,
                                      (1ul << 63) + 1,
                                      3ul << 61};
    static volatile size_t small[] = {1, 2, 4}; /* powers of two, but not multiples of a pointer */
    void *untouched = (void *)0x1234;

    for (size_t i = 0; i < COUNT(wrong); i++) {
        for (size_t size = 0; size < 1ul << 22; size = size * 3 + 1) {
            FAILS_WITH(aligned_alloc(wrong[i], size), EINVAL);
            errno = 1234;
            CHECK_SAYS(posix_memalign(&untouched, wrong[i], size) == EINVAL, "alignment %#zx",
                       wrong[i]);
            CHECK(errno == 1234 && untouched == (void *)0x1234);
        }
    }
    for (size_t i = 0; i < COUNT(small); i++) {
        void *p = aligned_alloc(small[i], 100);

        CHECK(p && (uintptr_t)p % 16 == 0);
        free(p);
        CHECK(posix_memalign(&untouched, small[i], 100) == EINVAL && untouched == (void *)0x1234);
    }
    /* memalign rounds up; glibc does, and programs know. */
    for (size_t align = 0; align < 5000; align += align < 70 ? 1 : 37) {
        void *p = memalign(align, 100);
        size_t rounded = 1;

        while (rounded < align)
            rounded *= 2;
        CHECK_SAYS(p && (uintptr_t)p % rounded == 0, "memalign(%zu) gave %p", align, p);
        free(p);
    }
    FAILS_WITH(memalign(too_much[0], 1), EINVAL);
    FAILS_WITH(memalign((1ul << 63) + (1 & too_much[0]), 1), EINVAL);
}

/* Every power of two is served up to 2^34, which is what glibc can do; above, served or refused. */
static void test_alignments(void)
{
    static const size_t sizes[] = {0, 1, 16, 100, 4096, 8192, 8193, 70000, 300000, 1 << 20};

    for (unsigned bits = 0; bits < 64; bits++) {
        size_t align = 1ul << bits;

        for (size_t i = 0; i < COUNT(sizes); i++) {
            void *got[3] = {NULL, NULL, NULL};

            errno = 0;
            got[0] = aligned_alloc(align, sizes[i]);
            got[1] = memalign(align, sizes[i]);
            if (!got[0] || !got[1])
                CHECK_SAYS(bits > 34 && errno == ENOMEM, "alignment 2^%u, size %zu, errno %d", bits,
                           sizes[i], errno);
            if (align >= sizeof(void *)) {
                int error = posix_memalign(&got[2], align, sizes[i]);

                CHECK_SAYS(error == 0 || (bits > 34 && error == ENOMEM), "2^%u: %d", bits, error);
            }
            for (int k = 0; k < 3; k++) {
                if (!got[k])
                    continue;
                CHECK_SAYS(((uintptr_t)got[k] & (align - 1)) == 0, "2^%u: %p", bits, got[k]);
                CHECK(malloc_usable_size(got[k]) >= sizes[i]);
                memset(got[k], 1, sizes[i]);
            }
            CHECK(!got[0] || got[0] != got[1]);
            for (int k = 0; k < 3; k++)
                free(got[k]);
        }
    }
}

static void test_pages(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t size = 0; size < 3 * page; size += 97) {
        void *p = valloc(size), *q = pvalloc(size);

        CHECK(p && (uintptr_t)p % page == 0 && malloc_usable_size(p) >= size);
        CHECK(q && (uintptr_t)q % page == 0);
        CHECK(malloc_usable_size(q) >= (size + page - 1) / page * page);
        free(p);
        free(q);
    }
}

int main(void)
{
    check_begin();
    test_sizes();
    test_kept();
    test_wrong_alignments();
    test_alignments();
    test_pages();
    return check_end();
}
