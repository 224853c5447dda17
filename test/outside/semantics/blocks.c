/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a block is: aligned, as large as it says, its own, zero if calloc made it, the same after
 * realloc. Proves it for every small size and a spread of larger ones.
 */
#include "test/outside/check.h"

#include <errno.h>

static unsigned char pattern(size_t i, size_t salt)
{
    return (unsigned char)(i * 31 + (i >> 8) + salt);
}

static void fill(unsigned char *p, size_t n, size_t salt)
{
    for (size_t i = 0; i < n; i++)
        p[i] = pattern(i, salt);
}

static bool holds(const unsigned char *p, size_t n, size_t salt)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != pattern(i, salt))
            return false;
    return true;
}

static size_t next_size(size_t n)
{
    return n < 3000 ? n + 1 : n + n / 40 + 7;
}

/*
 * Alignment of 16 for every size; waste of at most an eighth of the block above 128 bytes, in large
 * blocks and small ones, and never more than the next multiple of 16 needs below.
 */
static void test_shape(void)
{
    for (size_t n = 0; n < 5000000; n = next_size(n)) {
        void *p = malloc(n), *q = calloc(1, n);
        size_t usable = malloc_usable_size(p);

        CHECK_SAYS(p && (uintptr_t)p % 16 == 0, "malloc(%zu) gave %p", n, p);
        CHECK_SAYS(q && (uintptr_t)q % 16 == 0, "calloc(1, %zu) gave %p", n, q);
        CHECK_SAYS(usable >= n && (usable >= 1 || (SA_HARDENED && n == 0)), "malloc(%zu) has %zu",
                   n, usable);
        if (n > 128)
            CHECK_SAYS((usable - n) * 8 <= usable, "malloc(%zu) has %zu", n, usable);
        free(p);
        free(q);
    }
}

/* Blocks of no bytes are blocks of their own. */
static void test_empty(void)
{
    enum { BLOCKS = 1000 };
    static void *v[BLOCKS];
    void *last = NULL;
    int same = 0;

    for (int i = 0; i < BLOCKS; i++) {
        v[i] = i % 4 == 0   ? malloc(0)
               : i % 4 == 1 ? calloc(0, 100)
               : i % 4 == 2 ? calloc(100, 0)
                            : realloc(NULL, 0);
        REQUIRE(v[i]);
        memset(v[i], i, malloc_usable_size(v[i]));
    }
    for (int i = 0; i < BLOCKS; i++)
        for (int k = 0; k < i; k++)
            same += v[i] == v[k];
    CHECK(same == 0);
    for (int i = 0; i < BLOCKS; i++)
        free(v[i]);
    last = aligned_alloc(64, 0);
    CHECK(last != NULL);
    free(last);
    free(NULL);
    CHECK(malloc_usable_size(NULL) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        volatile size_t none = 0; /* gcc knows that a block of 0 bytes has none */
        char *volatile p = malloc(none);

        if (SA_HARDENED) /* there it has no bytes */
            break;
        CHECK(malloc_usable_size(p) >= 1);
        *p = 1;
        free(p);
    }
}

/* All usable bytes of many blocks at once are theirs alone. */
static void test_apart(void)
{
    enum { BLOCKS = 3000 };
    static unsigned char *v[BLOCKS];
    uint64_t seed = 11;

    for (size_t i = 0; i < BLOCKS; i++) {
        uint64_t r = check_random(&seed);

        v[i] = malloc(r % 8 ? r >> 40 & 1023 : r >> 40 & 32767);
        REQUIRE(v[i]);
        fill(v[i], malloc_usable_size(v[i]), i);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK_SAYS(holds(v[i], malloc_usable_size(v[i]), i), "block %zu", i);
    for (size_t i = 0; i < BLOCKS; i++)
        free(v[i]);
}

/* Memory that was used before, in every state that free leaves it, reads as zero after calloc. */
static void test_calloc(void)
{
    for (int round = 0; round < 3; round++) {
        for (size_t n = 1; n < 8000000; n = n * 3 / 2 + 1) {
            unsigned char *v[4], *p;
            size_t dirty = 0;

            for (int i = 0; i < 4; i++) {
                v[i] = malloc(n);
                REQUIRE(v[i]);
                memset(v[i], 0xa5, malloc_usable_size(v[i]));
            }
            for (int i = 0; i < 4; i++)
                free(v[i]);
            if (round == 1)
                malloc_trim(0);
            if (round == 2) { /* what a moved block leaves behind */
                p = malloc(n);
                REQUIRE(p);
                memset(p, 0xa5, n);
                p = realloc(p, n * 3);
                REQUIRE(p);
                memset(p, 0xa5, n * 3);
                free(p);
            }
            p = calloc(n, 1);
            REQUIRE(p);
            for (size_t i = 0; i < n; i++)
                dirty += p[i] != 0;
            CHECK_SAYS(dirty == 0, "calloc(%zu): %zu bytes in round %d", n, dirty, round);
            memset(p, 0x5a, malloc_usable_size(p));
            free(p);
        }
    }
}

/* realloc keeps every usable byte, not only those that were asked for. */
static void test_realloc_keeps(void)
{
    for (size_t n = 1; n < 4000000; n = n * 5 / 4 + 13) {
        for (int kind = 0; kind < 7; kind++) {
            unsigned char *p = malloc(n), *q, *between, *after;
            size_t usable = malloc_usable_size(p), to, kept;

            REQUIRE(p);
            fill(p, usable, n);
            between = malloc(n); /* in the way */
            after = malloc(8192);
            to = kind == 0   ? usable + 1
                 : kind == 1 ? usable * 2
                 : kind == 2 ? usable * 8
                 : kind == 3 ? usable
                 : kind == 4 ? n / 2 + 1
                 : kind == 5 ? n - n / 16
                             : 1;
            q = realloc(p, to);
            REQUIRE(q);
            kept = usable < to ? usable : to;
            CHECK_SAYS(holds(q, kept, n), "realloc from %zu (%zu usable) to %zu", n, usable, to);
            CHECK((uintptr_t)q % 16 == 0 && malloc_usable_size(q) >= to);
            memset(q, 1, malloc_usable_size(q));
            free(q);
            free(between);
            free(after);
        }
    }
}

/* Growing step by step, in place and by moving, with other blocks about; all bytes, at every
 * step. */
static void test_realloc_grows(void)
{
    uint64_t seed = 5;
    unsigned char *p = NULL;
    void *others[16] = {NULL};
    size_t had = 0;

    for (size_t n = 100; n < 40000000; n += n / 9 + 1) {
        uint64_t r = check_random(&seed);

        p = realloc(p, n);
        REQUIRE(p);
        CHECK_SAYS(holds(p, had, 3), "grown from %zu to %zu", had, n);
        had = malloc_usable_size(p);
        fill(p, had, 3);
        free(others[r % 16]);
        others[r % 16] = malloc(n / 2);
        REQUIRE(others[r % 16]);
        memset(others[r % 16], 9, n / 2);
    }
    for (size_t n = had; n > 50; n -= n / 5 + 1) {
        p = realloc(p, n);
        REQUIRE(p);
        CHECK_SAYS(holds(p, n, 3), "shrunk to %zu", n);
    }
    free(p);
    for (int i = 0; i < 16; i++)
        free(others[i]);
}

/* realloc(p, 0) frees: memory does not pile up. realloc(NULL, n) allocates. */
static void test_realloc_edges(void)
{
    size_t before = check_status("VmRSS:"), grown;

    for (int i = 0; i < 200000; i++) {
        void *p = malloc(4000);

        REQUIRE(p);
        memset(p, 1, 4000);
        errno = 1234;
        CHECK(realloc(p, 0) == NULL && errno == 1234);
    }
    /* 800 MB went through; a hundredth of it is far more than caches hold of one size. */
    grown = check_status("VmRSS:") - before;
    CHECK_SAYS((ssize_t)grown < 8192, "grown by %zd KiB", (ssize_t)grown);
    for (size_t n = 0; n < 1000000; n = n * 2 + 1) {
        void *p = realloc(NULL, n);

        CHECK(p && malloc_usable_size(p) >= n);
        free(p);
    }
}

/*
 * Aligned blocks of every small size, each taken twice: what a cache hands out again is aligned and
 * as large as what came from further down, and goes back by each of the ways that there are.
 */
static void test_aligned_again(void)
{
    void (*aligned_sized)(void *, size_t, size_t) =
        (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");

    REQUIRE(aligned_sized);
    for (size_t align = 8; align <= 65536; align *= 2) {
        for (size_t n = 0; n < 300000; n = n < 600 ? n + 1 : n + n / 16 + 5) {
            for (int turn = 0; turn < 4; turn++) {
                void *p = NULL;

                errno = 77;
                if (turn % 2)
                    p = memalign(align, n);
                else
                    CHECK(posix_memalign(&p, align, n) == 0);
                CHECK_SAYS(p && (uintptr_t)p % align == 0 && errno == 77, "%zu at %zu: %p", n,
                           align, p);
                CHECK_SAYS(malloc_usable_size(p) >= n, "%zu at %zu has %zu", n, align,
                           malloc_usable_size(p));
                memset(p, turn, malloc_usable_size(p));
                if (turn == 1)
                    aligned_sized(p, align, n);
                else if (turn == 2)
                    free(realloc(p, n + 100));
                else
                    free(p);
            }
        }
    }
}

int main(void)
{
    check_begin();
    test_shape();
    test_empty();
    test_apart();
    test_calloc();
    test_realloc_keeps();
    test_realloc_grows();
    test_realloc_edges();
    test_aligned_again();
    return check_end();
}
