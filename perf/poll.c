/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to poll the reports of a busy program.
 *
 *   cost    CPU time of one report, each format, of a heap of many spans in all states; and the
 *           share of one CPU that one report a second takes
 *   stalls  one thread allocates and frees on a CPU of its own, while another asks for reports
 *           without a pause (far more often than anybody would), or only keeps its CPU as busy:
 *           calls of malloc or free that take over a millisecond, and the longest. Most of those
 *           are calls during which the kernel let somebody else run; what is left has waited for a
 *           lock, or was long by itself.
 *
 * usage: poll [SECONDS-FOR-EACH-STALL-MEASUREMENT [MIB]]    with libsalloc.so preloaded
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define REPEATS 20
#define HELD    20000
#define SLOTS   4000
#define SLOW_NS 1000000

typedef char *get_function(void);

static const struct {
    const char *what, *symbol;
} reports[] = {
    {"text", "salloc_get_stats"},
    {"json", "salloc_get_stats_json"},
    {"openmetrics", "salloc_get_stats_openmetrics"},
};

static void **held;
static size_t held_count;
static uint32_t stop; /* atomic */

static uint64_t now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(*state >> 32);
}

/* Mostly small, up to large: a power of two with something added. */
static size_t random_size(uint64_t *state)
{
    size_t base = 16ul << next_random(state) % (next_random(state) % 8 ? 8 : 16);

    return base + next_random(state) % base;
}

static void die(const char *what)
{
    fprintf(stderr, "poll: %s\n", what);
    exit(1);
}

/* A heap with spans of all classes, in part free, and long free runs between live ones. */
static void fill(size_t mib)
{
    uint64_t random = 1;
    size_t bytes = 0, cap = 0;

    while (bytes >> 20 < mib) {
        size_t size = random_size(&random);

        if (held_count == cap) {
            cap = cap ? cap * 2 : HELD;
            held = realloc(held, cap * sizeof(*held));
            if (!held)
                die("out of memory");
        }
        held[held_count] = malloc(size);
        if (!held[held_count])
            die("out of memory");
        memset(held[held_count++], 1, size);
        bytes += size;
    }
    for (size_t i = 0; i < held_count; i++) {
        if (next_random(&random) % 2) {
            free(held[i]);
            held[i] = NULL;
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void measure_cost(const char *what, get_function *get)
{
    uint64_t took[REPEATS];
    size_t bytes = 0;

    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = now(CLOCK_THREAD_CPUTIME_ID);
        char *report = get();

        took[i] = now(CLOCK_THREAD_CPUTIME_ID) - start;
        if (!report)
            die("no report");
        bytes = strlen(report);
        free(report);
    }
    qsort(took, REPEATS, sizeof(*took), compare);
    printf(
        "cost %-12s %7.3f ms (least %.3f, most %.3f), %zu bytes; once a second: %.4f %% of a CPU\n",
        what, (double)took[REPEATS / 2] / 1e6, (double)took[0] / 1e6,
        (double)took[REPEATS - 1] / 1e6, bytes, (double)took[REPEATS / 2] / 1e7);
}

static void pin(unsigned cpu)
{
    cpu_set_t allowed, one;

    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
        for (unsigned i = 0, seen = 0; i < CPU_SETSIZE; i++) {
            if (CPU_ISSET(i, &allowed) && seen++ == cpu) {
                CPU_SET(i, &one);
                sched_setaffinity(0, sizeof(one), &one);
                return;
            }
        }
    }
}

/* Polls, or is busy without the allocator; arg is the function or NULL. */
static void *other(void *arg)
{
    get_function *get = NULL;
    unsigned long polls = 0;

    memcpy(&get, &arg, sizeof(arg));
    pin(1);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        if (get)
            free(get());
        else
            for (int i = 0; i < 100000; i++)
                __asm__ volatile("");
        polls++;
    }
    return (void *)polls;
}

/* Times that the kernel took the CPU from this thread. */
static long preempted(void)
{
    struct rusage usage;

    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

static void measure_stalls(const char *what, void *get, double seconds)
{
    uint64_t random = 7, max = 0, waited_max = 0, slow = 0, waited = 0, calls = 0, end;
    void *slots[SLOTS] = {NULL}, *polls;
    pthread_t thread;
    long before;

    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    if (pthread_create(&thread, NULL, other, get) != 0)
        die("no thread");
    end = now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    before = preempted();
    for (uint64_t start = 0; start < end; calls++) {
        size_t i = next_random(&random) % SLOTS, size = random_size(&random);
        uint64_t took;
        long after;

        start = now(CLOCK_MONOTONIC);
        if (slots[i]) {
            free(slots[i]);
            slots[i] = NULL;
        } else {
            slots[i] = malloc(size);
        }
        took = now(CLOCK_MONOTONIC) - start;
        after = preempted();
        max = took > max ? took : max;
        slow += took > SLOW_NS;
        if (after == before) {
            waited += took > SLOW_NS;
            waited_max = took > waited_max ? took : waited_max;
        }
        before = after;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, &polls);
    for (size_t i = 0; i < SLOTS; i++)
        free(slots[i]);
    printf(
        "stalls %-12s %6.2f million calls, %llu over 1 ms, longest %.3f ms; not preempted: %llu, "
        "longest %.3f ms",
        what, (double)calls / 1e6, (unsigned long long)slow, (double)max / 1e6,
        (unsigned long long)waited, (double)waited_max / 1e6);
    if (get)
        printf("; %lu reports", (unsigned long)polls);
    printf("\n");
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    size_t mib = argc > 2 ? (size_t)atol(argv[2]) : 1024;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!dlsym(RTLD_DEFAULT, reports[0].symbol))
        die("malloc is not salloc's");
    fill(mib);
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        void *symbol = dlsym(RTLD_DEFAULT, reports[i].symbol);
        get_function *get;

        memcpy(&get, &symbol, sizeof(get));
        measure_cost(reports[i].what, get);
    }
    pin(0);
    measure_stalls("alone", NULL, seconds);
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++)
        measure_stalls(reports[i].what, dlsym(RTLD_DEFAULT, reports[i].symbol), seconds);
    return 0;
}
