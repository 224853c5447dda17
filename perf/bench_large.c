/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calloc, realloc and large blocks: what is timed is less the calls than how often memory is
 * cleared, copied, or fetched from the kernel.
 */
#include "perf/harness.h"

#include <stdlib.h>

#define MIB (1l << 20)

#define KEEP(p) __asm__ volatile("" : "+r"(p) : : "memory")

/*
 * calloc and free. The block is written, so that memory that the allocator leaves to the kernel to
 * clear is paid for, and that a block used again must really be cleared.
 */
static void calloc_run(const struct perf_run *run)
{
    size_t size = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        char *p = calloc(1, size);

        KEEP(p);
        PERF_CHECK(p);
        if (p[0] | p[size / 2] | p[size - 1])
            perf_fail("calloc gave memory that is not zero");
        perf_touch(p, 0, size);
        free(p);
    }
}

/* A buffer from 16 bytes to 1 MiB by appending: one item is one realloc. */
#define APPEND_FIRST 16
#define APPEND_STEP  256
#define APPEND_MAX   MIB
#define APPENDS      ((APPEND_MAX - APPEND_FIRST) / APPEND_STEP)

static void append_run(const struct perf_run *run)
{
    for (uint64_t i = 0; i < run->iterations; i++) {
        size_t size = APPEND_FIRST;
        char *p = malloc(size);

        PERF_CHECK(p);
        *(volatile char *)p = 1;
        for (int64_t n = 0; n < APPENDS; n++) {
            p = realloc(p, size + APPEND_STEP);
            PERF_CHECK(p);
            *(volatile char *)(p + size) = 1;
            size += APPEND_STEP;
        }
        free(p);
    }
}

/* A block from 1 MiB to 64 MiB by doubling, its pages written: one item is one realloc. */
#define DOUBLE_FIRST MIB
#define DOUBLINGS    6

static void double_run(const struct perf_run *run)
{
    for (uint64_t i = 0; i < run->iterations; i++) {
        size_t size = DOUBLE_FIRST;
        char *p = malloc(size);

        PERF_CHECK(p);
        perf_touch(p, 0, size);
        for (int n = 0; n < DOUBLINGS; n++) {
            p = realloc(p, size * 2);
            PERF_CHECK(p);
            perf_touch(p, size, size * 2);
            size *= 2;
        }
        free(p);
    }
}

/* malloc and free of a large block, one byte of it written. */
static void large_run(const struct perf_run *run)
{
    size_t size = (size_t)run->arg;

    for (uint64_t i = 0; i < run->iterations; i++) {
        char *p = malloc(size);

        PERF_CHECK(p);
        *(volatile char *)p = 1;
        free(p);
    }
}

const struct perf_case perf_large[] = {
    {.name = "calloc", .run = calloc_run, .args = {16, 256, 4096, 64 * 1024, MIB}, .items = 1},
    {.name = "realloc_append", .run = append_run, .items = APPENDS},
    {.name = "realloc_double", .run = double_run, .items = DOUBLINGS},
    {.name = "large", .run = large_run, .args = {64 * 1024, MIB, 32 * MIB}, .items = 1},
    {.name = NULL},
};
