/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that run into the hard limit together, again and again, with blocks of 64 bytes to 64
 * MiB: every failure is NULL with ENOMEM, the process never has more memory than the limit, nor
 * does the library count as much as a request more, no block is lost or shared, and what is freed
 * can be had again.
 *
 * usage: hard THREADS LIMIT_MIB
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>

#define MIB (1ul << 20)

/* The largest request. Hugepages of which not all was touched count as a whole while they go from
 * one hand to another. */
#define REQUEST (66 * MIB)

/* The program's own memory, and records, which are not refused. */
#define PROGRAM (16 * MIB)

enum { ROUNDS = 10 };

struct block {
    struct block *next;
    size_t size;
};

static int (*set_limit)(enum salloc_memory_limit, size_t);
static size_t limit, threads;
static size_t max_used; /* atomic: seen by the thread that watches */
static bool done;       /* atomic */

static unsigned char *tail(struct block *b)
{
    return (unsigned char *)b + b->size - 1;
}

/* Sizes of each magnitude are equally likely. */
static size_t pick(uint64_t *seed)
{
    uint64_t r = check_random(seed);

    return ((size_t)64 << r % 21) + (r >> 32) % ((size_t)64 << r % 20);
}

static void *work(void *arg)
{
    uint64_t seed = (uintptr_t)arg * 7919;

    for (int round = 0; round < ROUNDS; round++) {
        struct block *head = NULL, *b;
        size_t sum = 0;

        for (;;) {
            size_t size = pick(&seed);

            errno = 0;
            b = check_random(&seed) % 2 ? malloc(size) : calloc(1, size);
            if (!b)
                break;
            b->size = size;
            b->next = head;
            memset(b + 1, 1, size - sizeof(*b));
            *tail(b) = (unsigned char)size;
            head = b;
            sum += size;
        }
        CHECK_SAYS(errno == ENOMEM, "errno is %d", errno);
        errno = 0;
        CHECK(!calloc(limit / 8, 8) && errno == ENOMEM);
        errno = 0;
        CHECK(!aligned_alloc(1 << 21, 1ul << 40) && errno == ENOMEM);
        if (threads == 1)
            CHECK_SAYS(sum + 66 * MIB > limit - limit / 8, "only %zu of %zu bytes", sum, limit);
        for (; head; head = b) {
            b = head->next;
            CHECK(*tail(head) == (unsigned char)head->size);
            free(head);
        }
    }
    return NULL;
}

static void *watch(void *unused)
{
    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        size_t used = check_property("generic.physical_memory_used");

        if (used > max_used)
            max_used = used;
        usleep(1000);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread[64], watcher;
    size_t before;

    check_begin();
    REQUIRE(argc == 3);
    threads = strtoul(argv[1], NULL, 10);
    limit = strtoul(argv[2], NULL, 10) * MIB;
    set_limit =
        (int (*)(enum salloc_memory_limit, size_t))dlsym(RTLD_DEFAULT, "salloc_set_memory_limit");
    REQUIRE(threads <= 64 && set_limit && set_limit(SALLOC_HARD_LIMIT, limit) == 0);
    before = check_status("VmRSS:") * 1024;
    REQUIRE(pthread_create(&watcher, NULL, watch, NULL) == 0);
    for (size_t i = 0; i < threads; i++)
        REQUIRE(pthread_create(&thread[i], NULL, work, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    __atomic_store_n(&done, true, __ATOMIC_RELAXED);
    pthread_join(watcher, NULL);

    CHECK_SAYS(max_used <= limit + REQUEST, "%zu bytes used, %zu are allowed", max_used, limit);
    CHECK_SAYS(check_status("VmHWM:") * 1024 <= before + limit + PROGRAM,
               "the process had %zu KiB, %zu before, %zu are allowed", check_status("VmHWM:"),
               before / 1024, limit / 1024);
    CHECK(check_property("tcmalloc.hard_limit_hits") >= threads * ROUNDS);
    CHECK(check_property("tcmalloc.hard_usage_limit_bytes") == limit);
    /* All is free: nearly all can be had in one block. */
    free(malloc(100));
    {
        void *p = malloc(limit * 3 / 4);

        CHECK(p != NULL);
        free(p);
    }
    return check_end();
}
