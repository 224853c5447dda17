/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of a page and more, of all sizes: what is timed is how often caches of few objects miss, and how often memory is
 * given back to the kernel and found again.
 *
 * Sizes are as frequent in one doubling as in another, and even within it. In "grow" a buffer grows by half until it has its final
 * size, as a vector does.
 */
#include "perf/harness.h"

#include <stdlib.h>

#define THREADS 2
#define MIDDLE  1000 /* live blocks of each thread, from 1 KiB to 64 KiB */
#define LONG    100  /* live blocks from 32 KiB to 4 MiB */
#define BUFFERS 100  /* that grow from 1 KiB to between 2 KiB and 1 MiB */

/* From least << 0 to least << octaves, from bits of a random number that perf_below does not depend on. */
static size_t even_size(uint64_t random, size_t least, unsigned octaves)
{
    size_t from = least << (random >> 8 & 0xffff) * octaves / 0x10000;

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

/* ---- middle: 1 KiB to 64 KiB, a live set for each thread; the first byte is written ---- */

static char *middle[THREADS][MIDDLE];

static void middle_run(const struct perf_run *run)
{
    uint64_t seed = 0x51ed + run->thread;
    char **mine = middle[run->thread];

    for (uint64_t i = 0; i < run->iterations; i++) {
        uint64_t random = perf_random(&seed);
        char **at = &mine[perf_below(random, MIDDLE)];

        free(*at);
        *at = touched(malloc(even_size(random, 1024, 6)), 0, 1);
    }
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
    {.name = "middle",
     .run = middle_run,
     .teardown = middle_teardown,
     .threads = {1, THREADS},
     .items = 1},
    {.name = "long", .run = long_run, .teardown = long_teardown, .items = 1},
    {.name = "grow", .run = grow_run, .teardown = grow_teardown, .items = 1},
    {.name = NULL},
};
