/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calloc returns a block that is zero to its usable size, behind blocks that were filled to theirs
 * and freed: of every size up to 4 KiB, of sizes of each longer class, and of large blocks; by its
 * other names, too.
 *
 * usage: zeroed [STEP]   of the sizes up to 4 KiB, one of STEP
 */
#include "test/outside/check.h"

enum { KEPT = 8, ZERO = 0x40 };

static void *(*make_flags)(size_t size, int flags); /* jemalloc's mallocx */

/* Leaves blocks of a size in the caches, which were filled to their end. */
static void leave_filled(size_t size)
{
    void *p[KEPT];

    for (int i = 0; i < KEPT; i++) {
        p[i] = malloc(size);
        REQUIRE(p[i]);
        memset(p[i], 0xa5, malloc_usable_size(p[i]));
        CHECK_OPAQUE(p[i]);
    }
    for (int i = 0; i < KEPT; i++)
        free(p[i]);
}

/* Whether the block is zero to its end. Fills and frees it. */
static bool is_zero(unsigned char *p)
{
    size_t usable = malloc_usable_size(p);
    bool zero;

    CHECK_OPAQUE(p);
    zero = !usable || (!p[0] && memcmp(p, p + 1, usable - 1) == 0);
    memset(p, 0x5a, usable);
    free(p);
    return zero;
}

static size_t junk; /* blocks that were not zero */

static void check_size(size_t size)
{
    leave_filled(size);
    for (int i = 0; i < KEPT / 2; i++)
        junk += !is_zero(i % 2 ? calloc(1, size) : calloc(size, 1));
    if (make_flags)
        junk += !is_zero(make_flags(size, ZERO));
}

int main(int argc, char **argv)
{
    size_t step = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;

    check_begin();
    make_flags = (void *(*)(size_t, int))dlsym(RTLD_DEFAULT, "mallocx");
    for (size_t size = 1; size <= 4096; size += step)
        check_size(size);
    CHECK_SAYS(!junk, "%zu blocks of up to 4096 bytes", junk);
    junk = 0;
    for (size_t size = 4097; size <= 262144; size += size / 40)
        check_size(size);
    CHECK_SAYS(!junk, "%zu blocks of up to 262,144 bytes", junk);
    junk = 0;
    for (size_t size = 262145; size <= 4 << 20; size += size / 5 + 1)
        check_size(size);
    CHECK_SAYS(!junk, "%zu large blocks", junk);
    return check_end();
}
