/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errno survives: every call that succeeds leaves it alone, the first one of the process included,
 * and free leaves it alone also when the system calls behind it fail.
 */
#include "test/outside/check.h"
#include "test/outside/faults.h"

#include <errno.h>

#define MARK 1234

#define KEEPS(call)                                                                                \
    do {                                                                                           \
        errno = MARK;                                                                              \
        call;                                                                                      \
        CHECK_SAYS(errno == MARK, "errno is %d", errno);                                           \
    } while (0)

/* Allocates and frees in every way, in every size range. */
static void everything(void)
{
    for (size_t n = 1; n < 300000000; n = n * 4 + 3) {
        void *p = NULL, *q = NULL;

        KEEPS(p = malloc(n));
        REQUIRE(p);
        KEEPS(p = realloc(p, n * 2));
        REQUIRE(p);
        KEEPS(p = realloc(p, n / 2 + 1));
        REQUIRE(p);
        if (n < 1 << 20)
            KEEPS(q = calloc(n, 2));
        KEEPS(free(q));
        KEEPS(q = aligned_alloc(8192, n));
        REQUIRE(q);
        KEEPS(malloc_usable_size(q));
        KEEPS(free(q));
        KEEPS(free(p));
        CHECK(posix_memalign(&p, 64, n) == 0);
        KEEPS(free(p));
        KEEPS(CHECK(posix_memalign(&p, 3, n) == EINVAL));
    }
    KEEPS(free(NULL));
    KEEPS(malloc_trim(0));
    KEEPS(mallinfo2());
    KEEPS(mallopt(M_ARENA_MAX, 1));
}

/* Many blocks at once, so that whole spans are freed and go back to the system. */
static void much(void)
{
    enum { BLOCKS = 40 };
    static void *v[BLOCKS];

    for (int i = 0; i < BLOCKS; i++) {
        KEEPS(v[i] = malloc(4 << 20));
        REQUIRE(v[i]);
        memset(v[i], 1, 4 << 20);
    }
    for (int i = 0; i < BLOCKS; i++)
        KEEPS(free(v[i]));
    KEEPS(malloc_trim(0));
    /* Maintenance rides on slow paths by elapsed time. */
    for (int i = 0; i < 60; i++) {
        void *p;

        KEEPS(p = malloc(1 << 20));
        usleep(20000);
        KEEPS(free(p));
    }
}

int main(void)
{
    void *first;

    errno = MARK;
    first = malloc(100);
    CHECK_SAYS(errno == MARK, "errno is %d after the first malloc", errno);
    KEEPS(free(first));
    check_begin();
    everything();
    much();
    faults_clear();
    faults[FAULT_MADVISE].after = 0;
    faults[FAULT_MUNMAP].after = 0;
    everything();
    much();
    /* Otherwise nothing was shown. */
    CHECK(faults[FAULT_MADVISE].failed > 0);
    faults_clear();
    everything();
    return check_end();
}
