/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose sizes change: it keeps so many bytes live and replaces blocks at random. In each
 * phase it uses 16 sizes, chosen anew and spread evenly over orders of magnitude. Prints the
 * highest RSS, its mean over the ends of phases, and the time. Run it under several allocators:
 *
 *   LD_PRELOAD=build/libsalloc.so build/perf/fragmentation/salloc-changing-sizes [MIB PHASES LEAST
 *   MOST]
 *
 * With OVER_LIVE in the environment: "over_live RSS LIVE", in bytes, at the end of each phase.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZES      16
#define BLOCKS_MAX (1 << 22)

struct slot {
    void *p;
    size_t size;
};

static struct slot slots[BLOCKS_MAX];
static size_t blocks, live;
static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* A number of the kernel's status file, in MiB. */
static double status_mib(const char *key)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    double mib = 0;

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            mib = atof(line + strlen(key) + 1) / 1024;
    if (file)
        fclose(file);
    return mib;
}

static void drop(void)
{
    size_t i = next() % blocks;

    free(slots[i].p);
    live -= slots[i].size;
    slots[i] = slots[--blocks];
}

static void add(size_t size)
{
    void *p = malloc(size);

    if (!p)
        abort();
    memset(p, 1, size);
    slots[blocks++] = (struct slot){p, size};
    live += size;
}

static void phase(size_t target, double least, double most)
{
    size_t sizes[SIZES], written = 0;

    for (int i = 0; i < SIZES; i++)
        sizes[i] = (size_t)(least * pow(most / least, (double)(next() >> 11) * 0x1p-53));
    while (written < target) {
        size_t size = sizes[next() % SIZES];

        while (blocks && (live + size > target || blocks == BLOCKS_MAX))
            drop();
        add(size);
        written += size;
    }
}

int main(int argc, char **argv)
{
    size_t target = (size_t)(argc > 1 ? atol(argv[1]) : 40) << 20;
    int phases = argc > 2 ? atoi(argv[2]) : 48;
    double least = argc > 3 ? atof(argv[3]) : 16, most = argc > 4 ? atof(argv[4]) : 8192;
    struct timespec from, to;
    double sum = 0;

    if (target < 1 << 20 || phases < 1 || least < 1 || most < least) {
        fprintf(stderr, "usage: %s [MIB PHASES LEAST MOST]\n", argv[0]);
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < phases; i++) {
        phase(target, least, most);
        sum += status_mib("VmRSS:");
        if (getenv("OVER_LIVE"))
            printf("over_live %.0f %zu\n", status_mib("VmRSS:") * 1048576, live);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("live %.0f MiB, RSS at most %.1f, mean %.1f, at the end %.1f MiB, %.2f s\n",
           (double)live / 1048576, status_mib("VmHWM:"), sum / phases, status_mib("VmRSS:"),
           (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
    return 0;
}
