/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of all sizes, most of a page and more: what is timed is how often caches of few objects
 * miss, and how often memory is given back to the kernel and found again.
 *
 * Sizes are as frequent in one doubling as in another, and even within it. In "grow" a buffer grows
 * by half until it has its final size, as a vector does.
 */
#include "perf/harness.h"

#include <stdlib.h>

#define LITTLE  1000   /* live blocks from 16 bytes to 4 KiB */
#define REFILL  400000 /* blocks of 16 to 215 bytes */
#define MIDDLE  1000   /* live blocks of each thread, from 1 KiB to 64 KiB */
#define LONG    100    /* live blocks from 32 KiB to 4 MiB */
#define BUFFERS 100    /* that grow from 1 KiB to between 2 KiB and 1 MiB */

/* From least << 0 to least << octaves, from bits of a random number that perf_below does not depend
 * on. */
static size_t even_size(uint64_t random, size_t min, unsigned octaves)
{
    size_t from = min << (random >> 8 & 0xffff) * octaves / 0x10000;

    return from + (random >> 16 & (from - 1));
}

/* The block, with a byte of each page in [from, to) written. */
static char *touched(char *p, size_t from, size_t to)
{
    PERF_CHECK(p);
    perf_touch(p, from, to);
    return p;
}

static void free_all(char **p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(p[i]);
        p[i] = NULL;
    }
}

/* Replaces random ones of n blocks, and writes the first byte. */
static void replace(uint64_t times, uint64_t seed, char **p, uint32_t n, size_t min,
                    unsigned octaves)
{
    for (uint64_t i = 0; i < times; i++) {
        uint64_t random = perf_random(&seed);
        char **at = &p[perf_below(random, n)];

        free(*at);
        *at = touched(malloc(even_size(random, min, octaves)), 0, 1);
    }
}

/* ---- little: 16 bytes to 4 KiB; the first byte is written ---- */

static char *little[LITTLE];

static void little_run(const struct perf_run *run)
{
    replace(run->iterations, 0x117e, little, LITTLE, 16, 8);
}

static void little_teardown(const struct perf_run *run)
{
    (void)run;
    free_all(little, LITTLE);
}

/* ---- refill: structures of 45 MiB are built and freed; one item is one malloc and its free
 * ---- */

static char *refilled[REFILL];

static void refill_run(const struct perf_run *run)
{
    for (uint64_t i = 0; i < run->iterations; i++) {
        for (size_t b = 0; b < REFILL; b++)
            refilled[b] = touched(malloc(16 + b % 200), 0, 1);
        free_all(refilled, REFILL);
    }
}

/* ---- middle: 1 KiB to 64 KiB, a live set for each thread; the first byte is written ---- */

static char *middle[PERF_THREADS_MOST][MIDDLE];

static void middle_run(const struct perf_run *run)
{
    replace(run->iterations, 0x51ed + run->thread, middle[run->thread], MIDDLE, 1024, 6);
}

static void middle_teardown(const struct perf_run *run)
{
    free_all(middle[run->thread], MIDDLE);
}

/* ---- long: 32 KiB to 4 MiB, each page written ---- */

static char *longs[LONG];

static void long_run(const struct perf_run *run)
{
    uint64_t seed = 0x10e6;

    for (uint64_t i = 0; i < run->iterations; i++) {
        uint64_t random = perf_random(&seed);
        char **at = &longs[perf_below(random, LONG)];
        size_t size = even_size(random, 32 * 1024, 7);

        free(*at);
        *at = touched(malloc(size), 0, size);
    }
}

static void long_teardown(const struct perf_run *run)
{
    (void)run;
    free_all(longs, LONG);
}

/* ---- grow: one item is one realloc, or a free and a malloc ---- */

static char *buffer[BUFFERS];
static size_t buffer_size[BUFFERS], buffer_end[BUFFERS];

static void grow_run(const struct perf_run *run)
{
    uint64_t seed = 0x6403;

    for (uint64_t i = 0; i < run->iterations; i++) {
        uint64_t random = perf_random(&seed);
        size_t b = perf_below(random, BUFFERS), size = buffer_size[b], more = size + size / 2;

        if (!buffer[b] || size >= buffer_end[b]) {
            free(buffer[b]);
            buffer_end[b] = even_size(random, 2048, 9);
            size = 0;
            more = 1024;
            buffer[b] = malloc(more);
        } else {
            buffer[b] = realloc(buffer[b], more);
        }
        touched(buffer[b], size, more);
        buffer_size[b] = more;
    }
}

static void grow_teardown(const struct perf_run *run)
{
    (void)run;
    free_all(buffer, BUFFERS);
}

const struct perf_case perf_mixed[] = {
    {.name = "little", .run = little_run, .teardown = little_teardown, .items = 1},
    {.name = "refill", .run = refill_run, .items = REFILL},
    {.name = "middle",
     .run = middle_run,
     .teardown = middle_teardown,
     .threads = {1, 2, 4, 8, PERF_THREADS_MOST},
     .items = 1},
    {.name = "long", .run = long_run, .teardown = long_teardown, .items = 1},
    {.name = "grow", .run = grow_run, .teardown = grow_teardown, .items = 1},
    {.name = NULL},
};
