/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a workload in C tells the harness, which is google-benchmark behind harness.cc.
 *
 * A case is run once per argument and number of threads. Every thread calls setup, then, after a
 * barrier, run (the only part that is timed), then, after another, teardown. The harness calls run
 * several times with more and more iterations until it has taken long enough; everything that a run
 * changed is undone by its teardown, so that runs do not depend on their number.
 *
 * Nothing here names an allocator: a workload calls malloc, and measures whatever answers.
 */
#ifndef PERF_HARNESS_H
#define PERF_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PERF_ARGS_MAX    8
#define PERF_THREADS_MAX 5

/* The most threads of a case. A case with more threads than CPUs is left out, but not with two. */
#define PERF_THREADS_MOST 16

struct perf_run {
    uint64_t iterations; /* to do in this call, by each thread */
    int64_t arg;         /* of the case; 0 if it has none */
    unsigned thread;     /* of this thread, from 0; each is pinned to a CPU of its own if several */
    unsigned threads;
};

struct perf_case {
    const char *name; /* NULL ends an array of cases; arguments are appended after a '/' */
    void (*setup)(const struct perf_run *run); /* or NULL */
    void (*run)(const struct perf_run *run);
    void (*teardown)(const struct perf_run *run); /* or NULL */
    int64_t args[PERF_ARGS_MAX];                  /* ended by 0; none: one run without */
    unsigned threads[PERF_THREADS_MAX];           /* ended by 0; none: one thread */
    /* What one iteration counts for, in operations; 0: as many as the argument says. */
    uint64_t items;
    /* Two threads, an even one and the next, work on the same items (a pipeline): only those of
     * even threads count. */
    uint8_t shared_items;
};

/* The files of cases. */
extern const struct perf_case perf_small[];
extern const struct perf_case perf_live[];
extern const struct perf_case perf_pipe[];
extern const struct perf_case perf_large[];
extern const struct perf_case perf_mixed[];
extern const struct perf_case perf_tree[];

/* The process's malloc is broken, or memory is out: says so and aborts. */
void perf_fail(const char *what) __attribute__((noreturn));

/* malloc for workloads, which are of no use with a NULL. */
#define PERF_CHECK(p)                                                                              \
    do {                                                                                           \
        if (__builtin_expect(!(p), 0))                                                             \
            perf_fail("out of memory");                                                            \
    } while (0)

#define PERF_OS_PAGE 4096

/* Writes a byte of each page in [from, to) of a block, as a program that uses it would. */
static inline void perf_touch(char *p, size_t from, size_t to)
{
    for (size_t at = from; at < to; at += PERF_OS_PAGE)
        *(volatile char *)(p + at) = 1;
}

/*
 * A 64-bit linear congruential generator (Knuth's MMIX constants): one multiplication, so that the
 * workload costs little beside the allocator. Take bits from the top.
 */
static inline uint64_t perf_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state;
}

/* A number below n (n < 2^32), from the top bits of a random number. */
static inline uint32_t perf_below(uint64_t random, uint32_t n)
{
    return (uint32_t)((random >> 32) * n >> 32);
}

#ifdef __cplusplus
}
#endif

#endif
