/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks with an alignment, while blocks without one lie wherever there is room: each is aligned,
 * and its own. Run with mixed_spans:always. Several threads replace blocks of all sizes up to 32
 * KiB; sized and aligned frees put some of them into the caches that aligned allocations take from.
 */
#include "test/outside/check.h"

#include <pthread.h>

#define THREADS 3
#define BLOCKS  4000
#define ROUNDS  400000

struct block {
    unsigned char *p;
    size_t size, align; /* 0: by malloc */
    unsigned char mark;
};

static void (*aligned_sized)(void *, size_t, size_t);
static unsigned long unaligned; /* atomic: blocks of malloc below the alignment of their size */

static unsigned draw(uint64_t *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)((*seed >> 33) % below);
}

static void make(struct block *b, uint64_t *seed)
{
    size_t align = (size_t)16 << draw(seed, 10);
    void *p = NULL;

    b->size = align * (1 + draw(seed, (unsigned)(32768 / align)) / (1 + draw(seed, 8)));
    b->align = draw(seed, 2) ? align : 0;
    b->mark = (unsigned char)draw(seed, 256);
    if (!b->align)
        p = malloc(b->size);
    else if (draw(seed, 2))
        p = aligned_alloc(align, b->size);
    else
        REQUIRE(posix_memalign(&p, align, b->size) == 0);
    b->p = p;
    REQUIRE(p);
    CHECK_SAYS((uintptr_t)p % (b->align ? b->align : 16) == 0, "%zu at %zu: %p", b->size, b->align,
               p);
    if (!b->align && align > 64 && (uintptr_t)p % align)
        __atomic_fetch_add(&unaligned, 1, __ATOMIC_RELAXED);
    memset(p, b->mark, b->size);
}

static void drop(struct block *b, uint64_t *seed)
{
    if (!b->p)
        return;
    for (size_t i = 0; i < b->size; i += 61)
        REQUIRE(b->p[i] == b->mark);
    REQUIRE(b->p[b->size - 1] == b->mark);
    if (b->align && draw(seed, 2))
        aligned_sized(b->p, b->align, b->size);
    else
        free(b->p);
    b->p = NULL;
}

static void *work(void *arg)
{
    struct block *blocks = calloc(BLOCKS, sizeof(*blocks));
    uint64_t seed = (uintptr_t)arg;

    REQUIRE(blocks);
    for (int i = 0; i < ROUNDS / THREADS; i++) {
        struct block *b = &blocks[draw(&seed, BLOCKS)];

        drop(b, &seed);
        make(b, &seed);
    }
    for (int i = 0; i < BLOCKS; i++)
        drop(&blocks[i], &seed);
    free(blocks);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    aligned_sized = (void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
    REQUIRE(aligned_sized);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK_SAYS(unaligned > 1000, "only %lu blocks have less than the alignment of their size",
               unaligned);
    return check_end();
}
