/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks lie, in programs that use more addresses than the window of the fast paths has.
 * usage: addresses alike [MS] | untouched | beyond | tebibyte
 *   alike      prints a hash of the addresses of many blocks; the caller compares runs, which take
 *              different times: a second argument is a pause in ms between the blocks
 *   untouched  an untouched block of 50 GiB, and others of a few GiB, use up none of the window
 *   beyond     frees of blocks beyond the window take a fast path, too
 *   tebibyte   1 TiB of blocks of many sizes at a time, freed in another order
 */
#include "test/outside/check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GIB    (1ul << 30)
#define BLOCKS 4000
#define ROUNDS 200
#define WINDOW (UINTPTR_MAX << 36)

static uint64_t hash;

static void *note(void *p)
{
    hash = hash * 31 + (uintptr_t)p;
    return p;
}

/* Small, medium, large and aligned blocks, and what comes back after frees. */
static int alike(unsigned pause_ms)
{
    static void *blocks[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = note(malloc(i * 7 % 3000 + 1));
    for (size_t i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    usleep(pause_ms * 1000);
    for (size_t i = 0; i < BLOCKS; i += 2)
        blocks[i] = note(calloc(1, i * 11 % 900 + 1));
    note(malloc(5000000));
    note(aligned_alloc(1 << 20, 3 << 20));
    note(realloc(blocks[1], 300000));
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}

static int untouched(void)
{
    static const size_t sizes[] = {50 * GIB, 3 * GIB, 9 * GIB, 70 * GIB, 2 * GIB};
    uintptr_t first = (uintptr_t)malloc(200);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        CHECK(malloc(sizes[i]) != NULL);
        for (int k = 0; k < 1000; k++) {
            uintptr_t p = (uintptr_t)malloc(2000);

            CHECK(p && (p & WINDOW) == (first & WINDOW));
        }
    }
    return 0;
}

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void free_plain(void *p, size_t size)
{
    (void)size;
    free(p);
}

/* The least of ROUNDS times that a pair takes; what else runs makes times longer. */
static double least(char **blocks, void (*end)(void *p, size_t size), double before)
{
    double start = now_ns(), pair;

    for (int i = 0; i < BLOCKS; i++) {
        end(blocks[i], 200);
        blocks[i] = malloc(200);
    }
    pair = (now_ns() - start) / BLOCKS;
    return pair < before ? pair : before;
}

/* A slow path takes 25 to 60 ns more. */
static int beyond(void)
{
    static char *near[BLOCKS], *far[BLOCKS];
    void (*ends[])(void *p, size_t size) = {
        free_plain, (void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized")};

    for (int i = 0; i < BLOCKS; i++)
        CHECK((near[i] = malloc(200)) != NULL);
    for (int i = 0; i < 80 * 4; i++)
        CHECK(malloc(GIB / 4) != NULL);
    while (((uintptr_t)malloc(GIB / 1024) & WINDOW) == ((uintptr_t)near[0] & WINDOW))
        ; /* what was left of the window */
    for (int i = 0; i < BLOCKS;) {
        far[i] = malloc(200);
        i += ((uintptr_t)far[i] & WINDOW) != ((uintptr_t)near[0] & WINDOW);
    }
    for (int k = 0; k < 2; k++) {
        double near_ns = 1e9, far_ns = 1e9;

        CHECK(ends[k] != NULL);
        for (int i = 0; i < ROUNDS; i++) {
            near_ns = least(near, ends[k], near_ns);
            far_ns = least(far, ends[k], far_ns);
        }
        printf("%s: a pair takes %.2f ns in the window, %.2f beyond\n", k ? "free_sized" : "free",
               near_ns, far_ns);
        CHECK(far_ns < near_ns + 2);
    }
    return 0;
}

static int tebibyte(void)
{
    static const size_t sizes[] = {64ul << 20, 300ul << 20, GIB, 5 * GIB, 200000};
    static char *blocks[40000];
    size_t total = 0, count = 0;

    for (; total < 1024 * GIB; count++) {
        size_t bytes = sizes[count % 5];

        CHECK(count < 40000 && (blocks[count] = malloc(bytes)) != NULL);
        blocks[count][0] = blocks[count][bytes - 1] = 1;
        total += bytes;
    }
    for (size_t step = 0; step < 7; step++)
        for (size_t i = step; i < count; i += 7) {
            CHECK(blocks[i][0] == 1);
            free(blocks[i]);
        }
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    return strcmp(mode, "alike") == 0       ? alike(argc > 2 ? (unsigned)atoi(argv[2]) : 0)
           : strcmp(mode, "untouched") == 0 ? untouched()
           : strcmp(mode, "beyond") == 0    ? beyond()
           : strcmp(mode, "tebibyte") == 0  ? tebibyte()
                                            : 2;
}
