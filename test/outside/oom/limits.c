/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that runs into RLIMIT_AS or RLIMIT_DATA: gets NULL and ENOMEM from every function,
 * hears nothing on stderr, loses no block, and has its memory back once it has freed it: at least
 * 80 % of what it could allocate before, in blocks of every size, and a quarter of it in one block.
 *
 * usage: limits AS|DATA MIB
 */
#include "test/outside/oom/oom.h"

/* What must be available at first: the rest is the program's, the libraries' and the
 * allocator's. */
#if SA_HARDENED /* blocks of 1 MiB with an inaccessible page do not go in pairs into hugepages */
#define FRACTION_AT_FIRST 0.33
#else
#define FRACTION_AT_FIRST 0.5
#endif
#define FRACTION_AGAIN 0.8

static double max_bytes;

/* At the limit: every function fails, nothing else changes, and what is freed can be had again. */
static void test_at_the_limit(size_t size, size_t limit)
{
    size_t n;
    void **head = oom_fill(size, &n), *p = head, *q;

    REQUIRE(n > 1);
    for (size_t big = limit; big < 1ul << 40; big *= 4) {
        void *untouched = &n;

        errno = 0;
        CHECK(!calloc(1, big) && errno == ENOMEM);
        errno = 0;
        CHECK(!aligned_alloc(8192, big) && errno == ENOMEM);
        errno = 0;
        CHECK(!realloc(head, big + size) && errno == ENOMEM);
        errno = 0;
        CHECK(posix_memalign(&untouched, 64, big) == ENOMEM && errno == ENOMEM && untouched == &n);
    }
    CHECK(head[0] == head[size / sizeof(void *) - 1]);
    for (int i = 0; i < 100; i++) {
        head = *(void **)p;
        free(p);
        q = malloc(size);
        CHECK_SAYS(q != NULL, "a block of %zu bytes was freed, but there is none", size);
        if (!q) {
            p = head;
            break;
        }
        ((void **)q)[0] = ((void **)q)[size / sizeof(void *) - 1] = head;
        p = q;
    }
    oom_empty(p, size);
}

static void test_recovery(size_t size, double limit)
{
    double first = 0, again;
    size_t n;
    void *p;

    for (int round = 0; round < 3; round++) {
        p = oom_fill(size, &n);
        oom_empty(p, size);
        again = (double)n * (double)size;
        if (round == 0)
            first = again;
        CHECK_SAYS(again >= FRACTION_AGAIN * first, "blocks of %zu: %.1f MiB, then %.1f", size,
                   first / 1048576, again / 1048576);
    }
    if (first > max_bytes)
        max_bytes = first;
    CHECK_SAYS(first >= FRACTION_AT_FIRST * limit, "blocks of %zu: only %.1f MiB", size,
               first / 1048576);
    p = malloc((size_t)(max_bytes / 4));
    CHECK_SAYS(p != NULL, "one block of %.1f MiB after blocks of %zu", max_bytes / 4 / 1048576,
               size);
    if (p)
        memset(p, 1, (size_t)(max_bytes / 4));
    free(p);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1000,   64 << 10, 1 << 20, 104,   8192,
                                   300000, 5 << 20,  1000,    200000};
    size_t mib;

    REQUIRE(argc == 3);
    mib = strtoul(argv[2], NULL, 10);
    oom_limit(argv[1][0] == 'A' ? RLIMIT_AS : RLIMIT_DATA, mib, argv);
    oom_listen(argv);
    check_begin();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        test_recovery(sizes[i], (double)(mib << 20));
        test_at_the_limit(sizes[i], mib << 20);
    }
    oom_silent();
    return check_end();
}
