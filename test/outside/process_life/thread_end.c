/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that end while destructors of thread-specific data and of thread_local-like handlers go
 * on allocating, freeing and making more data; blocks of ended threads are used and freed by
 * others.
 */
#include "test/outside/check.h"

#include <pthread.h>

enum { KEYS = 100, THREADS = 4, ROUNDS = 150, LEFT = 64 };

static pthread_key_t keys[KEYS];
static int destroyed;    /* atomic */
static void *left[LEFT]; /* atomic: blocks that ended threads leave behind */

struct value {
    int again; /* so often its destructor makes data anew */
    int key;
};

static void destroy(void *p)
{
    struct value *v = p, *more;

    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < 30; i++)
        free(malloc(i * 50));
    if (v->again > 0) {
        more = malloc(sizeof(*more) + (size_t)v->again * 100);
        REQUIRE(more);
        more->again = v->again - 1;
        more->key = (v->key * 7 + 3) % KEYS;
        if (pthread_getspecific(keys[more->key]) == NULL)
            pthread_setspecific(keys[more->key], more);
        else
            free(more);
    }
    free(v);
}

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg;

    for (int i = 0; i < KEYS; i++) {
        struct value *v = malloc(sizeof(*v));

        REQUIRE(v);
        v->again = i % 3;
        v->key = i;
        pthread_setspecific(keys[i], v);
    }
    for (int i = 0; i < LEFT; i++) {
        size_t size = check_random(&seed) % 5000 + 2 * sizeof(size_t);
        size_t *p = malloc(size), *other;

        REQUIRE(p);
        *p = size;
        ((char *)p)[size - 1] = (char)size;
        other = __atomic_exchange_n(&left[check_random(&seed) % LEFT], p, __ATOMIC_ACQ_REL);
        if (other)
            CHECK(*other < 6000 && ((char *)other)[*other - 1] == (char)*other);
        free(other);
    }
    return NULL;
}

int main(void)
{
    size_t resident = 0;

    check_begin();
    for (int i = 0; i < KEYS; i++)
        REQUIRE(pthread_key_create(&keys[i], destroy) == 0);
    for (uintptr_t r = 0; r < ROUNDS; r++) {
        pthread_t threads[THREADS];

        for (uintptr_t i = 0; i < THREADS; i++)
            REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(r * THREADS + i + 1)) == 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        if (r == ROUNDS / 2)
            resident = check_status("VmRSS:");
    }
    CHECK(destroyed >= ROUNDS * THREADS * KEYS);
    /* What threads leave is used again: the second half needs no more than the first. */
    CHECK_SAYS(check_status("VmRSS:") < resident + 2048, "%zu KiB, then %zu", resident,
               check_status("VmRSS:"));
    return check_end();
}
