/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run out of address space together, again and again, while more threads are asked
 * for: every failure is NULL with ENOMEM, no block is lost or shared, and afterwards the memory is
 * there again.
 *
 * usage: threads MIB [seconds]
 */
#include "test/outside/oom/oom.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 12 };

struct block {
    struct block *next;
    size_t size;
};

static unsigned char *tail(struct block *b)
{
    return (unsigned char *)b + b->size - 1;
}

static pthread_barrier_t barrier;
static double until; /* 0: ROUNDS rounds */

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg * 7919;

    if (arg)
        pthread_barrier_wait(&barrier);
    for (int round = 0; arg && until > 0 ? check_now() < until : round < (arg ? ROUNDS : 1);
         round++) {
        struct block *head = NULL, *p;

        for (;;) {
            uint64_t r = check_random(&seed);
            size_t size = 32 + (r >> 60 ? r % 3000 : r % 400000);

            errno = 0;
            p = r >> 40 & 1 ? malloc(size) : calloc(1, size);
            if (!p)
                break;
            p->next = head;
            p->size = size;
            *tail(p) = (unsigned char)size;
            head = p;
            if (r >> 41 & 3)
                continue;
            p = realloc(head, size * 2);
            if (!p)
                break;
            CHECK(p->size == size && *tail(p) == (unsigned char)size);
            head = p;
        }
        CHECK_SAYS(errno == ENOMEM, "errno is %d", errno);
        for (; head; head = p) {
            p = head->next;
            CHECK(*tail(head) == (unsigned char)head->size);
            free(head);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    pthread_attr_t attr;
    size_t before, after;
    void *p;

    REQUIRE(argc == 2 || argc == 3);
    oom_limit(RLIMIT_AS, strtoul(argv[1], NULL, 10), argv);
    oom_listen(argv);
    check_begin();
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], &attr, work, (void *)(i + 1)) == 0);
    p = oom_fill(100000, &before);
    oom_empty(p, 100000);
    until = argc == 3 ? check_now() + check_seconds(8) : 0;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 1000; i++) { /* there may or may not be room for a stack */
        pthread_t more;

        if (pthread_create(&more, &attr, work, NULL) == 0)
            pthread_join(more, NULL);
        usleep(100);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    p = oom_fill(100000, &after);
    oom_empty(p, 100000);
    CHECK_SAYS((double)after >= 0.8 * (double)before, "%zu blocks, then %zu", before, after);
    oom_silent();
    return check_end();
}
