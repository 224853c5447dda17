/* SPDX-License-Identifier: Apache-2.0 */
/*
 * realloc of large blocks moves pages with mremap. The kernel may refuse: because the range
 * consists of several mappings (here: part of a block was given advice of its own), because it has
 * too many, or for lack of memory; and some refusals come after it has removed what was mapped at
 * the target. Proves that contents survive every refusal, and that no part of the heap is left
 * without a mapping.
 */
#include "test/outside/faults.h"
#include "test/outside/oom/oom.h"

#include <sys/syscall.h>

static size_t word(size_t i)
{
    return i * 0x9e3779b97f4a7c15ul;
}

static void fill(size_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(*p); i += 61)
        p[i] = word(i);
}

static bool holds(const size_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof(*p); i += 61)
        if (p[i] != word(i))
            return false;
    return true;
}

/* Grows a block from 300 KB to 60 MB with others in its way, then writes to all that there is. */
static void grow(void)
{
    size_t bytes = 300000;
    size_t *p = malloc(bytes);
    void *others[24] = {NULL};
    int k = 0;

    REQUIRE(p);
    fill(p, bytes);
    while (bytes < 60000000) {
        size_t more = bytes + bytes / 3;
        size_t *q = realloc(p, more);

        REQUIRE(q);
        CHECK_SAYS(holds(q, bytes), "from %zu to %zu", bytes, more);
        p = q;
        bytes = more;
        fill(p, bytes);
        others[k] = malloc(bytes / 2);
        REQUIRE(others[k]);
        memset(others[k], k, bytes / 2);
        if (k % 3 == 2) {
            free(others[k - 1]);
            others[k - 1] = NULL;
        }
        k++;
    }
    free(p);
    for (int i = 0; i < k; i++)
        free(others[i]);
    /* Every free page is handed out and written to: one without a mapping would end the program. */
    for (size_t n = 1 << 20; n < 100 << 20; n *= 2) {
        p = calloc(1, n);
        REQUIRE(p);
        for (size_t i = 0; i < n / sizeof(*p); i += 512)
            CHECK(p[i] == 0);
        memset(p, 7, n);
        free(p);
    }
}

static void test_refused(bool unmaps)
{
    static const long failures[] = {1, 3, FAULT_NEVER};
    long failed = 0;

    faults_mremap_unmaps = unmaps;
    for (size_t f = 0; f < 3; f++) {
        for (long after = 0; after < 5; after += 2) {
            faults_clear();
            faults[FAULT_MREMAP].after = after;
            faults[FAULT_MREMAP].failures = failures[f];
            grow();
            failed += faults[FAULT_MREMAP].failed;
        }
    }
    faults_clear();
    REQUIRE(failed >= 9);
}

/* A block that lies in several mappings. */
static void test_several_mappings(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (size_t bytes = 1 << 20; bytes <= 16 << 20; bytes *= 4) {
        char *p = malloc(bytes), *part;
        void *neighbour = malloc(bytes);
        size_t *q;

        REQUIRE(p && neighbour);
        fill((size_t *)p, bytes);
        part = (char *)(((uintptr_t)p + bytes / 2) / page * page);
        REQUIRE(madvise(part, 16 * page, MADV_DONTFORK) == 0);
        q = realloc(p, bytes * 3);
        REQUIRE(q);
        CHECK_SAYS(holds(q, bytes), "%zu bytes", bytes);
        memset(q, 1, bytes * 3);
        free(q);
        memset(neighbour, 1, bytes);
        free(neighbour);
        grow();
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    oom_listen(argv);
    check_begin();
    test_refused(false);
    test_refused(true);
    test_several_mappings();
    oom_silent();
    return check_end();
}
