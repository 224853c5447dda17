/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creep: a program whose population is constant. Threads, which come and go, replace blocks of a
 * shared table at random. The sizes have the same distribution all the time.
 *
 * Proves that memory is at most 1.25 times what is live, and, in a run of at least 600 s, that it
 * does not climb: the interval of the slope does not lie above zero. The slope is that of a line
 * through the means of 20 equal parts of the last three quarters; the parts are so long that they
 * do not depend on each other. By Student's distribution (18 degrees of freedom), 1 run of 2000
 * without creep fails. With many CPUs, caches hold more, and only the slope is judged.
 */
#include "test/outside/check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    SLOTS = 1600000,
    THREADS = 3,
    STEPS = 1000, /* replacements between two pauses */
    PARTS = 20,
    POINTS_MAX = 1 << 14,
};

#define PERIOD      4.0  /* seconds of a thread's life, and from one measurement to the next */
#define RATIO_MAX   1.25 /* memory over live ... */
#define CPUS_MAX    4    /* ... on at most so many CPUs */
#define STUDENT     3.92 /* quantile 0.9995 of Student's distribution, 18 degrees of freedom */
#define LONG_RUN    600.0
#define WARM_UP     0.25 /* of the run */
#define SIZE_MAX_OF (256 << 10)

struct block {
    size_t size;
};

static struct block *slots[SLOTS]; /* atomic: whoever takes a block out owns it */
static size_t live;                /* atomic: bytes that were asked for */

/* From 16 bytes to 256 KiB. Each octave has half as many blocks as the one before. */
static size_t random_size(uint64_t *state)
{
    uint64_t r = check_random(state);
    unsigned octave = (unsigned)__builtin_ctzll(r | 1ull << 14);
    size_t low = 16ul << octave;

    return low + (r >> 20) % low > SIZE_MAX_OF ? SIZE_MAX_OF : low + (r >> 20) % low;
}

static void replace(uint64_t *state)
{
    size_t slot = check_random(state) % SLOTS, size = random_size(state);
    struct block *b = malloc(size), *old;

    REQUIRE(b);
    memset(b, 1, size);
    b->size = size;
    __atomic_fetch_add(&live, size, __ATOMIC_RELAXED);
    old = __atomic_exchange_n(&slots[slot], b, __ATOMIC_ACQ_REL);
    if (old) {
        __atomic_fetch_sub(&live, old->size, __ATOMIC_RELAXED);
        free(old);
    }
}

struct work {
    uint64_t seed;
    double end;
};

static void *work(void *arg)
{
    struct work *w = arg;

    while (check_now() < w->end) {
        for (int i = 0; i < STEPS; i++)
            replace(&w->seed);
        usleep(10000);
    }
    return NULL;
}

/* The slope of a line through the points, per step, and half the width of its interval. */
static double slope_of(const double *y, int n, double *ret_half)
{
    double mean_x = (n - 1) / 2.0, mean_y = 0, sxx = 0, sxy = 0, left = 0, slope;

    for (int i = 0; i < n; i++)
        mean_y += y[i] / n;
    for (int i = 0; i < n; i++) {
        sxx += (i - mean_x) * (i - mean_x);
        sxy += (i - mean_x) * (y[i] - mean_y);
    }
    slope = sxy / sxx;
    for (int i = 0; i < n; i++) {
        double rest = y[i] - mean_y - slope * (i - mean_x);

        left += rest * rest;
    }
    *ret_half = STUDENT * sqrt(left / (n - 2) / sxx);
    return slope;
}

static double points[POINTS_MAX]; /* RSS without the table, over live */

static void judge(int count, double seconds)
{
    int first = (int)(count * WARM_UP), each = (count - first) / PARTS;
    double parts[PARTS] = {0}, mean = 0, half, slope;

    for (int i = first; i < count; i++)
        mean += points[i] / (count - first);
    printf("measured %d times, over live: %.3f\n", count, mean);
    CHECK(mean <= RATIO_MAX || sysconf(_SC_NPROCESSORS_CONF) > CPUS_MAX);
    if (seconds < LONG_RUN)
        return;
    for (int i = 0; i < PARTS * each; i++)
        parts[i / each] += points[count - PARTS * each + i] / each;
    for (int i = 0; i < PARTS; i++)
        printf("part %d: %.4f\n", i, parts[i]);
    slope = slope_of(parts, PARTS, &half) * 3600 / (each * PERIOD);
    half *= 3600 / (each * PERIOD);
    printf("slope: %.4f of live an hour (99.9 %%: %.4f to %.4f)\n", slope, slope - half,
           slope + half);
    CHECK(slope - half <= 0);
}

int main(void)
{
    double seconds = check_seconds(30), start, now;
    uint64_t state = 1;
    int count = 0;

    check_begin();
    start = check_now();
    for (int i = 0; i < 4 * SLOTS; i++)
        replace(&state);
    while ((now = check_now()) < start + seconds) {
        struct work works[THREADS];
        pthread_t threads[THREADS];

        for (int i = 0; i < THREADS; i++) {
            works[i] = (struct work){check_random(&state), now + PERIOD};
            REQUIRE(pthread_create(&threads[i], NULL, work, &works[i]) == 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        if (count < POINTS_MAX)
            points[count++] = ((double)check_status("VmRSS") * 1024 - sizeof(slots)) / (double)live;
    }
    judge(count, seconds);
    return check_end();
}
