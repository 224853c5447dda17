/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Live sets that breathe: blocks of the same sizes become many and few, more slowly than the time
 * that a burst takes. What is free at the lowest point is needed again for the same sizes, so no
 * span becomes mixed, but for one request of a class that has more than before by chance. If the
 * program goes on with other sizes instead, spans do become mixed.
 *
 * usage: breathing LEAST MOST [LEAST MOST]   sizes of blocks, powers of two; after the last turn
 */
#include "test/outside/check.h"

enum {
    BYTES = 96 << 20,
    TURNS = 2,
    FEW = 20,
    REQUEST = 4,
    PAUSE_US = 700000,
    BLOCKS_MAX = 1 << 20
};

static char **blocks;
static size_t count, live;
static uint64_t seed = 1;

/* Octaves are alike, as in perf/breathe.c. */
static size_t random_size(size_t least, size_t most)
{
    uint64_t r = check_random(&seed);
    unsigned octaves = (unsigned)__builtin_ctzl(most) - (unsigned)__builtin_ctzl(least);
    size_t octave = least << (r >> 32) % octaves;

    return octave + r % octave + 1;
}

static void grow(size_t least, size_t most)
{
    while (live < BYTES && count < BLOCKS_MAX) {
        char *p = malloc(random_size(least, most));

        REQUIRE(p);
        *p = 1;
        live += malloc_usable_size(p);
        blocks[count++] = p;
    }
}

/* Frees random blocks but one of FEW. */
static void shrink(void)
{
    for (size_t few = count / FEW; count > few;) {
        size_t i = check_random(&seed) % count;

        live -= malloc_usable_size(blocks[i]);
        free(blocks[i]);
        blocks[i] = blocks[--count];
    }
}

int main(int argc, char **argv)
{
    size_t sizes[4] = {0}, made;

    REQUIRE(argc == 3 || argc == 5);
    check_begin();
    for (int i = 1; i < argc; i++)
        sizes[i - 1] = strtoul(argv[i], NULL, 10);
    blocks = malloc(BLOCKS_MAX * sizeof(*blocks));
    REQUIRE(blocks);
    grow(sizes[0], sizes[1]);
    for (int turn = 0; turn < TURNS; turn++) {
        shrink();
        usleep(PAUSE_US);
        grow(sizes[0], sizes[1]);
    }
    made = check_property("salloc.mixed_conversions");
    CHECK_SAYS(made <= REQUEST, "%zu spans became mixed", made);
    if (argc == 5) {
        shrink();
        usleep(PAUSE_US);
        grow(sizes[2], sizes[3]);
        made = check_property("salloc.mixed_conversions");
        CHECK_SAYS(made > REQUEST || SA_HARDENED || getenv("SALLOC_CONF"), "%zu spans became mixed",
                   made);
    }
    return check_end();
}
