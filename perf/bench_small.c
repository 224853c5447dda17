/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small blocks of one size: pairs, which show the length of the fast paths, and batches, which show
 * what the caches behind them hold and how they overflow and refill.
 *
 * A pair does not touch its block, as nothing but the calls is to be seen; the others write the
 * first word of theirs, as programs do.
 */
#include "perf/harness.h"

#include <dlfcn.h>
#include <stdlib.h>

/* The calls must neither be merged nor dropped. */
#define KEEP(p) __asm__ volatile("" : "+r"(p) : : "memory")

/* ---- malloc and free of one size ---- */

static void pair_run(const struct perf_run *run)
{
    size_t size = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        void *p = malloc(size);

        KEEP(p);
        PERF_CHECK(p);
        free(p);
    }
}

/* ---- the same, when the program knows the size: C23's free_sized where there is one ---- */

typedef void free_sized_function(void *p, size_t size);

static free_sized_function *find_free_sized;

static void free_plain(void *p, size_t size)
{
    (void)size;
    free(p);
}

static void sized_setup(const struct perf_run *run)
{
    (void)run;
    find_free_sized = (free_sized_function *)dlsym(RTLD_DEFAULT, "free_sized");
    if (!find_free_sized)
        find_free_sized = free_plain;
}

static void sized_run(const struct perf_run *run)
{
    free_sized_function *release = find_free_sized;
    size_t size = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        void *p = malloc(size);

        KEEP(p);
        PERF_CHECK(p);
        release(p, size);
    }
}

/* ---- what C++ calls: operator new, and the sized delete of C++14, by their mangled names ---- */

void *_Znwm(size_t size);
void _ZdlPvm(void *p, size_t size);

static void new_delete_run(const struct perf_run *run)
{
    size_t size = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        void *p = _Znwm(size);

        KEEP(p);
        _ZdlPvm(p, size);
    }
}

/* ---- aligned ---- */

static void aligned_run(const struct perf_run *run)
{
    size_t align = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        void *p = aligned_alloc(align, 2 * align);

        KEEP(p);
        PERF_CHECK(p);
        free(p);
    }
}

/* ---- realloc: a string or a vector that doubles from 16 bytes to 2 KiB; one item is one realloc
 * ---- */

#define SMALL_DOUBLINGS 8

static void realloc_small_run(const struct perf_run *run)
{
    for (uint64_t i = 0; i < run->iterations; i++) {
        char *p = NULL;

        for (int n = 0; n < SMALL_DOUBLINGS; n++) {
            p = realloc(p, 16ul << n);
            PERF_CHECK(p);
            *(volatile char *)p = 1;
        }
        free(p);
    }
}

/* ---- batches of 32-byte blocks ---- */

#define BATCH_MAX  10000
#define BATCH_SIZE 32

static void *batch[BATCH_MAX];

static void batch_fill(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t *p = malloc(BATCH_SIZE);

        PERF_CHECK(p);
        *p = i;
        batch[i] = p;
    }
}

static void batch_fifo_run(const struct perf_run *run)
{
    size_t n = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        batch_fill(n);
        for (size_t b = 0; b < n; b++)
            free(batch[b]);
    }
}

static void batch_lifo_run(const struct perf_run *run)
{
    size_t n = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        batch_fill(n);
        for (size_t b = n; b-- > 0;)
            free(batch[b]);
    }
}

const struct perf_case perf_small[] = {
    {.name = "pair", .run = pair_run, .args = {16, 64, 256, 4096}, .items = 1},
    {.name = "pair_sized", .setup = sized_setup, .run = sized_run, .args = {16, 256}, .items = 1},
    {.name = "new_delete", .run = new_delete_run, .args = {16}, .items = 1},
    {.name = "pair_aligned", .run = aligned_run, .args = {64, 4096}, .items = 1},
    {.name = "realloc_small", .run = realloc_small_run, .items = SMALL_DOUBLINGS},
    {.name = "batch_fifo", .run = batch_fifo_run, .args = {32, 1000, BATCH_MAX}},
    {.name = "batch_lifo", .run = batch_lifo_run, .args = {32, 1000, BATCH_MAX}},
    {.name = NULL},
};
