/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sampling costs a loop of malloc and free, in one process: the interval takes turns, off in
 * between, and each turn is compared with the turn without sampling right before it. Medians of the
 * ratios are what is left of the machine's noise; the ratio of "off" to itself says how much that
 * is.
 *
 * usage: salloc-sampling-cost [ROUNDS [MILLISECONDS]]    with libsalloc.so preloaded
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS_MAX = 10000, INTERVALS = 4 };

static const int64_t intervals[INTERVALS] = {0, 2 << 20, 512 << 10, 64 << 10};
static const char *const names[INTERVALS] = {"off", "2 MiB", "512 KiB", "64 KiB"};
static const size_t sizes[] = {16, 64, 256, 1024, 4096, 65536, 1 << 20};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds for each pair. */
static double turn(size_t bytes, long pairs)
{
    double start = now();

    for (long i = 0; i < pairs; i++) {
        void *p = malloc(bytes);

        __asm__ volatile("" : "+r"(p)::"memory");
        free(p);
    }
    return (now() - start) / (double)pairs;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double quantile(double *values, int count, double q)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[(int)(q * (count - 1))];
}

int main(int argc, char **argv)
{
    static double ratio[INTERVALS][ROUNDS_MAX], base[INTERVALS * ROUNDS_MAX];
    int rounds = argc > 1 ? atoi(argv[1]) : 100;
    double milliseconds = argc > 2 ? strtod(argv[2], NULL) : 20;
    int (*set)(int64_t) = (int (*)(int64_t))dlsym(RTLD_DEFAULT, "salloc_set_sampling_interval");

    if (!set || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "preload libsalloc.so; 1 to %d rounds\n", ROUNDS_MAX);
        return 1;
    }
    printf("  bytes  ns a pair  medians of the ratio to no sampling (quartiles)\n%18s", "");
    for (int k = 0; k < INTERVALS; k++)
        printf("  %-22s", names[k]);
    printf("\n");
    for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
        long pairs = (long)(milliseconds * 1e6 / turn(sizes[s], 1000000)) + 1;
        int bases = 0;

        for (int i = 0; i < rounds; i++) {
            for (int k = 0; k < INTERVALS; k++) {
                double off;

                set(0);
                turn(sizes[s], pairs / 10 + 1);
                off = turn(sizes[s], pairs);
                set(intervals[k]);
                turn(sizes[s], pairs / 10 + 1);
                ratio[k][i] = turn(sizes[s], pairs) / off;
                base[bases++] = off;
            }
        }
        printf("%7zu  %9.3f", sizes[s], quantile(base, bases, 0.5));
        for (int k = 0; k < INTERVALS; k++)
            printf("  %.4f (%.4f %.4f)", quantile(ratio[k], rounds, 0.5),
                   quantile(ratio[k], rounds, 0.25), quantile(ratio[k], rounds, 0.75));
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
