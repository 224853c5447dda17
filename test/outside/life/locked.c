/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that locks its memory, as daemons for time and clusters, and audio programs do:
 * mlockall(MCL_CURRENT | MCL_FUTURE). What is mapped is in memory then, and MADV_DONTNEED fails.
 *
 *   locked free [filtered]   128 MiB of large blocks, then of small ones, are written to and freed. At most LEFT_KIB more than
 *                            at first are resident a little later; filtered: large blocks only, as
 *                            behind a filter nothing but whole mappings can go back.
 */
#include "test/outside/check.h"

#include <sys/mman.h>

#define TOTAL (128ul << 20)
#define LARGE (1ul << 20)
#define SMALL 2000ul
#define LEFT_KIB                                                                                   \
    (56ul                                                                                          \
     << 10) /* 48 MiB that may stay where memory was missing before, and 8 of records and caches */
#define SECONDS 20.0

static size_t first; /* KiB resident before anything was allocated */

static size_t resident(void)
{
    return check_status("VmRSS:");
}

/* The blocks are linked, so that no table has to be locked. */
static void *allocate(size_t bytes)
{
    void **last = NULL;

    for (size_t i = 0; i < TOTAL / bytes; i++) {
        void **p = malloc(bytes);

        REQUIRE(p);
        memset(p, 1, bytes);
        *p = last;
        last = p;
    }
    return last;
}

static void release(void *last)
{
    for (void **p = last, **next; p; p = next) {
        next = *p;
        free(p);
    }
}

static void check_free(size_t bytes)
{
    double end = check_now() + SECONDS;
    void *last = allocate(bytes);
    size_t after;

    CHECK(resident() >= TOTAL >> 10);
    release(last);
    do {
        usleep(10000);
        free(malloc(100));
        after = resident();
    } while (after > first + LEFT_KIB && check_now() < end);
    check_say("blocks of %zu bytes: %zu KiB before, %zu after", bytes, first, after);
    CHECK_SAYS(after <= first + LEFT_KIB, "%zu KiB more", after - first);
}

int main(int argc, char **argv)
{
    REQUIRE(argc >= 2 && strcmp(argv[1], "free") == 0);
    check_begin();
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        SKIP("memory cannot be locked");
    first = resident();
    check_free(LARGE);
    check_free(3 * LARGE + LARGE / 2);
    if (argc == 2)
        check_free(SMALL);
    return check_end();
}
