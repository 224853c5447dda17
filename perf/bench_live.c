/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many live blocks of random sizes, replaced one at a time. In "random" each thread replaces blocks
 * of its own. In "larson" (after the program of P. Larson and M. Krishnan, 1998, which imitates a
 * server) all threads replace blocks of one set, so that most blocks are freed by another thread
 * than the one that allocated them: every other block of two threads.
 *
 * Sizes are from 16 to 1023 bytes: each octave is half as likely as the one below it, and sizes are
 * even within an octave, which is roughly what programs ask for. The mean is 84 bytes.
 */
#include "perf/harness.h"

#include <stdatomic.h>
#include <stdlib.h>

#define SIZE_MIN 16u
#define OCTAVES  6

#define LIVE   10000 /* blocks of each thread in "random" */
#define SHARED 4096  /* blocks of all threads in "larson" */

/* From bits of a random number that perf_below does not depend on. */
static size_t random_size(uint64_t random)
{
    unsigned octave = (unsigned)__builtin_ctzll(random >> 40 | 1u << (OCTAVES - 1));
    size_t min = SIZE_MIN << octave;

    return min + (random >> 28 & (min - 1));
}

/* A block of random size, its first word written. */
static void *random_block(uint64_t random)
{
    uint64_t *p = malloc(random_size(random));

    PERF_CHECK(p);
    *p = random;
    return p;
}

static uint64_t thread_seed(const struct perf_run *run)
{
    return 0x5a110c + run->thread;
}

/* ---- random: a live set for each thread ---- */

static void *live[PERF_THREADS_MOST][LIVE];

static void random_setup(const struct perf_run *run)
{
    uint64_t seed = ~thread_seed(run);

    for (size_t i = 0; i < LIVE; i++)
        live[run->thread][i] = random_block(perf_random(&seed));
}

static void random_run(const struct perf_run *run)
{
    void **mine = live[run->thread];
    uint64_t seed = thread_seed(run);

    for (uint64_t i = 0; i < run->iterations; i++) {
        uint64_t random = perf_random(&seed);
        void **at = &mine[perf_below(random, LIVE)];

        free(*at);
        *at = random_block(random);
    }
}

static void random_teardown(const struct perf_run *run)
{
    for (size_t i = 0; i < LIVE; i++)
        free(live[run->thread][i]);
}

/* ---- larson: one live set for all ---- */

static void *_Atomic shared[SHARED];

static void larson_setup(const struct perf_run *run)
{
    uint64_t seed = ~thread_seed(run);

    for (size_t i = run->thread; i < SHARED; i += run->threads)
        atomic_store_explicit(&shared[i], random_block(perf_random(&seed)), memory_order_release);
}

static void larson_run(const struct perf_run *run)
{
    uint64_t seed = thread_seed(run);

    for (uint64_t i = 0; i < run->iterations; i++) {
        uint64_t random = perf_random(&seed);
        void *p = random_block(random);

        free(
            atomic_exchange_explicit(&shared[perf_below(random, SHARED)], p, memory_order_acq_rel));
    }
}

static void larson_teardown(const struct perf_run *run)
{
    for (size_t i = run->thread; i < SHARED; i += run->threads)
        free(atomic_exchange_explicit(&shared[i], NULL, memory_order_acquire));
}

const struct perf_case perf_live[] = {
    {.name = "random",
     .setup = random_setup,
     .run = random_run,
     .teardown = random_teardown,
     .threads = {1, 2, 4, 8, PERF_THREADS_MOST},
     .items = 1},
    {.name = "larson",
     .setup = larson_setup,
     .run = larson_run,
     .teardown = larson_teardown,
     .threads = {2, 4, 8, PERF_THREADS_MOST},
     .items = 1},
    {.name = NULL},
};
