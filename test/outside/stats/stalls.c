/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report of a large heap stops nobody for long: while one thread asks for reports without a
 * pause, no malloc of another takes a millisecond. The heap is 48 GiB of blocks that are never
 * written to, so it costs its records only.
 *
 * The machine may stop a thread for longer than that at any time. A call that was interrupted by
 * the kernel is not counted, and of several rounds the best counts: what the library does to its
 * callers, it does in each.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#define BLOCK   (300ul << 10) /* six in a hugepage */
#define BLOCKS  ((48ul << 30) / BLOCK)
#define ROUNDS  10
#define REPORTS 10 /* in a round that counts */
#define LONG_NS 1000000

typedef char *get_function(void);

static get_function *get;
static void *blocks[BLOCKS];
static uint32_t stop, reports; /* atomic */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static long interrupted(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

/* To one of the CPUs that the process may use. */
static void pin(int which)
{
    cpu_set_t allowed, one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) < 2)
        return;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed) && which-- == 0)
            CPU_SET(i, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void *poll(void *unused)
{
    (void)unused;
    pin(1);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        free(get());
        __atomic_fetch_add(&reports, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* The longest call of half a second, each of which takes the page heap's lock. */
static uint64_t longest_ns(void)
{
    uint64_t max = 0, end = now_ns() + 500000000, start = now_ns();
    long before = interrupted();

    while (start < end) {
        void *p = malloc(BLOCK), *q = malloc(2 * BLOCK);
        uint64_t now;
        long after;

        free(p);
        free(q);
        now = now_ns();
        after = interrupted();
        if (after == before && now - start > max)
            max = now - start;
        before = after;
        start = now_ns();
    }
    return max;
}

int main(void)
{
    uint64_t min = UINT64_MAX, max = 0;
    pthread_t thread;
    int rounds;

    check_begin();
    get = (get_function *)dlsym(RTLD_DEFAULT, "salloc_get_stats");
    REQUIRE(get);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK);
        if (!blocks[i])
            SKIP("no address space for a large heap");
    }
    for (size_t i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    pin(0);
    REQUIRE(pthread_create(&thread, NULL, poll, NULL) == 0);
    for (rounds = 0; rounds < ROUNDS && min > LONG_NS; rounds++) {
        uint32_t before = __atomic_load_n(&reports, __ATOMIC_RELAXED);
        uint64_t ns = longest_ns();

        if (__atomic_load_n(&reports, __ATOMIC_RELAXED) - before < REPORTS)
            continue;
        min = ns < min ? ns : min;
        max = ns > max ? ns : max;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    check_say("%u reports; the longest call of the best of %d rounds took %lu us, of the worst %lu",
              reports, rounds, (unsigned long)(min / 1000), (unsigned long)(max / 1000));
    CHECK(min <= LONG_NS);
    return check_end();
}
