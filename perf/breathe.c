/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live sets that breathe: each thread, on a CPU of its own, lets its blocks grow from LOW to HIGH
 * and shrink again, over and over. One operation in DRIFT goes that way, the others allocate or
 * free at random, so that a larger DRIFT breathes more slowly. Which block is freed is random.
 * Blocks have 16 B to 8 KiB, each octave alike, and one in 4,096 has 1 MiB. The program never
 * changes its sizes: memory that moves from one class to another saves it nothing.
 *
 * Each call of malloc and free is timed by the processor's time stamp counter (elsewhere than on
 * x86-64 by the clock), whose reads are in the figures. Prints one line: millions of operations for
 * a second of CPU time, the sum over the threads; the quantiles of the ns of an operation; CPU
 * time, peak memory, page faults. A preload chooses the allocator.
 *
 * usage: salloc-breathe [SECONDS [THREADS [DRIFT [LOW HIGH]]]]
 *   SECONDS   of CPU time of each thread (5)
 *   THREADS   (2)
 *   DRIFT     (32)
 *   LOW HIGH  blocks of a thread (5000 100000)
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define SIZE_LOG_MIN 4  /* 16 B */
#define SIZE_LOG_MAX 13 /* 8 KiB */
#define LARGE_BYTES  (1ul << 20)
#define LARGE_ONE_IN 4096
#define THREADS_MAX  64

/* Buckets of a histogram: 2^SUB_LOG for each power of two of ticks. */
#define SUB_LOG 5
#define BUCKETS (64 << SUB_LOG)

struct worker {
    pthread_t thread;
    unsigned number;
    double cpu_s;
    uint64_t operations;
    uint64_t times[BUCKETS];
} __attribute__((aligned(128)));

static struct worker workers[THREADS_MAX];
static size_t low = 5000, high = 100000;
static unsigned drift = 32;
static double seconds = 5, ns_a_tick = 1;

static void fail(const char *what)
{
    fprintf(stderr, "salloc-breathe: %s\n", what);
    exit(1);
}

static double clock_s(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static inline uint64_t ticks(void)
{
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
#endif
}

/* splitmix64 (Steele, Lea, Flood). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static size_t random_size(uint64_t *state)
{
    uint64_t r = next_random(state), log = SIZE_LOG_MIN + (r >> 32) % (SIZE_LOG_MAX - SIZE_LOG_MIN);

    if (r % LARGE_ONE_IN == 0)
        return LARGE_BYTES;
    return (1ul << log) + (r >> 12 & ((1ul << log) - 1)) + 1;
}

static void count(struct worker *w, uint64_t t)
{
    unsigned log = 63 - (unsigned)__builtin_clzll(t | 1ull << SUB_LOG), down = log - SUB_LOG;

    w->times[(down << SUB_LOG) + (t >> down)]++;
    w->operations++;
}

/* The middle of a bucket, in ticks. */
static double bucket_ticks(size_t i)
{
    size_t down = i >> SUB_LOG ? (i >> SUB_LOG) - 1 : 0;

    return ((double)(i - (down << SUB_LOG)) + 0.5) * (double)(1ull << down);
}

static void breathe(struct worker *w, char **blocks, uint64_t *state)
{
    unsigned grows = 1;
    size_t n = 0;

    for (uint64_t k = 0; k % 1024 || clock_s(CLOCK_THREAD_CPUTIME_ID) - w->cpu_s < seconds; k++) {
        uint64_t random = next_random(state), begin;
        unsigned takes = (random >> 1) % drift == 0 ? grows : (unsigned)(random >> 63);

        if (n == 0 || (takes && n < high)) {
            size_t size = random_size(state);
            char *p;

            begin = ticks();
            p = malloc(size);
            count(w, ticks() - begin);
            if (!p)
                fail("out of memory");
            for (size_t i = 0; i < size; i += 4096)
                p[i] = (char)n;
            p[size - 1] = 1;
            blocks[n++] = p;
        } else {
            size_t i = (next_random(state) >> 16) % n;
            char *p = blocks[i];

            blocks[i] = blocks[--n];
            begin = ticks();
            free(p);
            count(w, ticks() - begin);
        }
        if (n >= high || (n <= low && !grows))
            grows = n < high;
    }
    while (n)
        free(blocks[--n]);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t state = w->number;
    char **blocks = malloc(high * sizeof(*blocks));
    cpu_set_t all, one;
    unsigned at = w->number;

    if (!blocks)
        fail("out of memory");
    memset(blocks, 0, high * sizeof(*blocks));
    if (sched_getaffinity(0, sizeof(all), &all))
        fail("no affinity");
    at %= (unsigned)CPU_COUNT(&all);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all) || at--)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
        break;
    }
    w->cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID);
    breathe(w, blocks, &state);
    w->cpu_s = clock_s(CLOCK_THREAD_CPUTIME_ID) - w->cpu_s;
    free(blocks);
    return NULL;
}

/* The quantile of the times of all threads, in ns. */
static double quantile(double q)
{
    uint64_t all = 0, below = 0;

    for (size_t t = 0; t < THREADS_MAX; t++)
        all += workers[t].operations;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (size_t t = 0; t < THREADS_MAX; t++)
            below += workers[t].times[i];
        if ((double)below >= q * (double)all)
            return bucket_ticks(i) * ns_a_tick;
    }
    return 0;
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 2;
    double rate = 0, begin;
    struct rusage usage;
    uint64_t first;

    if (argc > 1)
        seconds = strtod(argv[1], NULL);
    if (argc > 3)
        drift = (unsigned)strtoul(argv[3], NULL, 10);
    if (argc > 5) {
        low = strtoul(argv[4], NULL, 10);
        high = strtoul(argv[5], NULL, 10);
    }
    if (!(seconds > 0) || threads < 1 || threads > THREADS_MAX || !drift || low < 1 || high <= low)
        fail("usage: salloc-breathe [SECONDS [THREADS [DRIFT [LOW HIGH]]]]");
    begin = clock_s(CLOCK_MONOTONIC);
    first = ticks();
    for (unsigned t = 0; t < threads; t++) {
        workers[t].number = t;
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]))
            fail("no thread");
    }
    for (unsigned t = 0; t < threads; t++) {
        pthread_join(workers[t].thread, NULL);
        rate += (double)workers[t].operations / workers[t].cpu_s * 1e-6;
    }
    ns_a_tick = (clock_s(CLOCK_MONOTONIC) - begin) * 1e9 / (double)(ticks() - first);
    getrusage(RUSAGE_SELF, &usage);
    printf("%.2f million operations a CPU second; ns p50 %.0f, p90 %.0f, p99 %.0f, p99.9 %.0f, "
           "p99.99 %.0f; CPU %.2f s user, %.2f s system; peak %.0f MB; %ld faults\n",
           rate, quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), quantile(0.9999),
           (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6,
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6,
           (double)usage.ru_maxrss / 1e3, usage.ru_minflt);
    return 0;
}
