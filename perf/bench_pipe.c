/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producer and consumer: one thread allocates blocks of 64 bytes, another frees them. With more
 * threads there are more such pairs. Every block is freed on another CPU than the one it was
 * allocated on, so none comes back through the producer's own cache: what is timed is how memory
 * travels between the two.
 *
 * In the first case the threads leave the blocks alone, so that only the allocator is seen. In the
 * second the producer writes them and the consumer reads them, as programs do: each block is then
 * fetched from the other CPU twice, whoever allocated it, and that takes most of the time.
 *
 * Blocks are passed in a ring that has no lock. Each side keeps the other's position until it has
 * used it up, so that the ring itself costs little.
 */
#include "perf/harness.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define BLOCK 64
#define RING  1024
#define APART _Alignas(128)

static struct ring {
    APART void *slot[RING];
    APART _Atomic uint64_t produced; /* blocks ever put in; written by the producer */
    APART _Atomic uint64_t consumed; /* blocks ever taken out; written by the consumer */
} rings[PERF_THREADS_MOST / 2];

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/*
 * Waits until the position of the other side is past `seen`, and returns it. It spins, as the other
 * side has a CPU of its own; giving this one away would cost a time slice wherever somebody else
 * wants it, for a thousand blocks.
 */
static uint64_t wait_past(const _Atomic uint64_t *position, uint64_t seen)
{
    uint64_t now;

    while ((now = atomic_load_explicit(position, memory_order_acquire)) <= seen)
        pause_cpu();
    return now;
}

/* Inlined, so that `use` costs nothing in the loop. */
static inline __attribute__((always_inline)) void produce(struct ring *ring, uint64_t n, bool use)
{
    uint64_t consumed = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t *p = malloc(BLOCK);

        PERF_CHECK(p);
        if (use)
            p[0] = p[BLOCK / 8 - 1] = i;
        if (i - consumed == RING)
            consumed = wait_past(&ring->consumed, consumed);
        ring->slot[i % RING] = p;
        atomic_store_explicit(&ring->produced, i + 1, memory_order_release);
    }
}

static inline __attribute__((always_inline)) void consume(struct ring *ring, uint64_t n, bool use)
{
    uint64_t produced = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t *p;

        if (i == produced)
            produced = wait_past(&ring->produced, produced);
        p = ring->slot[i % RING];
        atomic_store_explicit(&ring->consumed, i + 1, memory_order_release);
        /* Two threads that hold one block would show here. */
        if (use && (p[0] != i || p[BLOCK / 8 - 1] != i))
            perf_fail("a block changed on its way to the consumer");
        free(p);
    }
}

static void pipe_setup(const struct perf_run *run)
{
    struct ring *ring = &rings[run->thread / 2];

    if (run->thread % 2 == 0) {
        atomic_store_explicit(&ring->produced, 0, memory_order_relaxed);
        atomic_store_explicit(&ring->consumed, 0, memory_order_relaxed);
    }
}

static void pipe_run(const struct perf_run *run)
{
    struct ring *ring = &rings[run->thread / 2];

    if (run->thread % 2 == 0)
        produce(ring, run->iterations, false);
    else
        consume(ring, run->iterations, false);
}

static void pipe_used_run(const struct perf_run *run)
{
    struct ring *ring = &rings[run->thread / 2];

    if (run->thread % 2 == 0)
        produce(ring, run->iterations, true);
    else
        consume(ring, run->iterations, true);
}

const struct perf_case perf_pipe[] = {
    {.name = "producer_consumer",
     .setup = pipe_setup,
     .run = pipe_run,
     .threads = {2, 4, 8, PERF_THREADS_MOST},
     .items = 1,
     .shared_items = 1},
    {.name = "producer_consumer_used",
     .setup = pipe_setup,
     .run = pipe_used_run,
     .threads = {2, 4, 8, PERF_THREADS_MOST},
     .items = 1,
     .shared_items = 1},
    {.name = NULL},
};
