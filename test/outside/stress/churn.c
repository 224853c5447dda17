/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that come and go all the time, a few at once, each doing a little and leaving some blocks
 * to whoever comes later. Proves that contents survive and that memory does not pile up.
 */
#include "test/outside/check.h"

#include <pthread.h>

enum { AT_ONCE = 8, LEFT = 256 };

struct left {
    size_t size;
    unsigned char data[];
};

static struct left *left[LEFT]; /* atomic */

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    for (int i = 0; i < 100; i++) {
        size_t size = 32 + check_random(&seed) % (i % 10 ? 2000 : 100000);
        struct left *p = malloc(size);

        REQUIRE(p);
        p->size = size;
        memset(p->data, (int)(size & 255), size - sizeof(*p));
        p = __atomic_exchange_n(&left[check_random(&seed) % LEFT], p, __ATOMIC_ACQ_REL);
        if (!p)
            continue;
        for (size_t k = 0; k < p->size - sizeof(*p); k += 37)
            REQUIRE(p->data[k] == (p->size & 255));
        free(p);
    }
    return NULL;
}

int main(void)
{
    double seconds = check_seconds(8), start = check_now();
    uintptr_t n = 0;
    size_t early = 0, late;
    pthread_attr_t attr;

    check_begin();
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 << 10);
    while (check_now() < start + seconds) {
        pthread_t threads[AT_ONCE];

        for (int i = 0; i < AT_ONCE; i++)
            REQUIRE(pthread_create(&threads[i], &attr, work, (void *)++n) == 0);
        for (int i = 0; i < AT_ONCE; i++)
            pthread_join(threads[i], NULL);
        if (!early && check_now() > start + seconds / 4)
            early = check_status("VmRSS:");
    }
    late = check_status("VmRSS:");
    check_say("%lu threads, %zu KiB resident early, %zu late", (unsigned long)n, early, late);
    /* The live blocks are at most 256 times 100 KB; a quarter of the run reaches the steady
     * state. */
    CHECK(late < early + 16 * 1024);
    return check_end();
}
