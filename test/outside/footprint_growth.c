/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same load, 40 times, does not take more memory, nor more address space, each time. Blocks of
 * mixed sizes are written by one thread and freed by another in random order; a fiftieth of each
 * load stays for two loads more, on pages that the next loads find in part taken.
 *
 * Proves that the peaks of the last five loads are at most a 20th above those of the 26th to 30th
 * (until then those blocks that stay find their places; address space comes in steps of a 32nd),
 * and what is left behind also, of memory and of address space. Memory goes up and down by some
 * hugepages, as it is chance on which CPU a block is freed: one run in about 50 ends more than a
 * 20th above. What grows each time does so in every run, so the test fails if three runs in a row
 * do.
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/wait.h>

#define ROUNDS     40
#define LOAD_BYTES (96ul << 20)
#define BLOCKS     400000
#define KEPT       (BLOCKS / 20)
#define KEEP       50 /* one in so many */
#define RUNS       3

static char *blocks[BLOCKS];
static size_t count;
static char *kept[3][KEPT];
static size_t kept_count[3];
static uint64_t sizes, choices = 20;

static size_t below(uint64_t *rng, size_t n)
{
    return check_random(rng) % n;
}

/* Small ones are many, but each order of magnitude has as many bytes as another. */
static size_t random_size(void)
{
    size_t base = 16, order = below(&sizes, 4096);

    while (base < 131072 && order % 2) {
        base *= 2;
        order /= 2;
    }
    return base + below(&sizes, base);
}

static void come(void)
{
    size_t bytes = 0;

    sizes = 7; /* the same load each time */
    for (count = 0; bytes < LOAD_BYTES && count < BLOCKS; count++) {
        size_t size = random_size();

        blocks[count] = malloc(size);
        REQUIRE(blocks[count]);
        memset(blocks[count], 1, size);
        bytes += size;
    }
}

static void *go(void *arg)
{
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    return arg;
}

/* What stays, and a random order for the rest. */
static void choose(unsigned round)
{
    char **keep = kept[round % 3];
    size_t *n = &kept_count[round % 3];

    for (size_t i = 0; i < *n; i++)
        free(keep[i]);
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        size_t other = i + below(&choices, count - i);
        char *p = blocks[other];

        blocks[other] = blocks[i];
        blocks[i] = p;
        if (below(&choices, KEEP) == 0 && *n < KEPT) {
            keep[(*n)++] = p;
            blocks[i] = NULL;
        }
    }
}

static size_t max(const size_t *values, unsigned from, unsigned to)
{
    size_t m = 0;

    for (unsigned i = from; i < to; i++)
        m = values[i] > m ? values[i] : m;
    return m;
}

static void compare(const char *what, const size_t *kib)
{
    size_t early = max(kib, 25, 30), late = max(kib, ROUNDS - 5, ROUNDS);

    check_say("%s: %zu KiB, later %zu", what, early, late);
    CHECK_SAYS(late <= early + early / 20, "%s grows", what);
}

static int run(void)
{
    size_t peak[ROUNDS], left[ROUNDS], space[ROUNDS];

    for (unsigned round = 0; round < ROUNDS; round++) {
        pthread_t thread;

        come();
        peak[round] = check_status("VmRSS:");
        choose(round);
        REQUIRE(pthread_create(&thread, NULL, go, NULL) == 0);
        pthread_join(thread, NULL);
        left[round] = check_status("VmRSS:");
        space[round] = check_status("VmSize:");
    }
    compare("memory at the peak", peak);
    compare("memory left", left);
    compare("address space", space);
    return check_end();
}

int main(void)
{
    int status = 1;

    check_begin();
    for (int i = 0; status && i < RUNS; i++) {
        pid_t child = fork();

        REQUIRE(child >= 0);
        if (child == 0)
            _exit(run());
        REQUIRE(waitpid(child, &status, 0) == child);
    }
    CHECK_SAYS(!status, "it grows in each of %d runs", RUNS);
    return check_end();
}
