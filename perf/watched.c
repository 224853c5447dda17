/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that allocates without a pause, and says how far it is, for watched.py: what it costs a
 * process to be looked at. One thread replaces blocks of 16 to 4096 bytes in a table of 20,000.
 *
 * usage: salloc-watched FILE
 * FILE is shared memory of at least 16 bytes: rounds of 100 blocks, and the longest round in ns,
 * which the reader sets back to 0.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define BLOCKS 20000
#define ROUND  100

static void *blocks[BLOCKS];

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;
    volatile uint64_t *words;
    uint64_t state = 1, before;

    if (fd < 0) {
        fprintf(stderr, "usage: salloc-watched FILE\n");
        return 2;
    }
    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (words == MAP_FAILED)
        return 1;
    for (before = now_ns();;) {
        uint64_t after;

        for (int i = 0; i < ROUND; i++) {
            uint64_t draw = next(&state);
            size_t bytes = 16 + (draw >> 32) % 4081;
            void **place = &blocks[draw % BLOCKS];

            free(*place);
            *place = malloc(bytes);
            if (!*place)
                return 1;
            memset(*place, 1, bytes);
        }
        after = now_ns();
        words[0]++;
        if (after - before > words[1])
            words[1] = after - before;
        before = after;
    }
}
