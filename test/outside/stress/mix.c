/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once: threads allocate in every way and every size range, resize, and free what
 * other threads have allocated, for a while. Every block carries its size and contents that follow
 * from a seed; whoever takes a block checks them. usage: mix THREADS
 */
#include "test/outside/check.h"

#include <pthread.h>

enum { SHARED = 4096, THREADS_MAX = 64 };

struct block {
    uint64_t size, seed;
    unsigned char data[];
};

void free_sized(void *p, size_t size) __attribute__((weak));

static struct block *shared[SHARED]; /* atomic */
static int stop;                     /* atomic */

/* Contents are set every 8 bytes at both ends and every 512 between: a stray write of a pointer is
 * likely seen, and large blocks do not take all the time. */
static size_t next_place(size_t i, size_t n)
{
    return i > 256 && i + 520 < n ? i + 512 : i + 8;
}

static uint64_t word(uint64_t seed, size_t i)
{
    uint64_t state = seed + i;

    return check_random(&state);
}

static void fill(struct block *b, size_t n, uint64_t seed)
{
    b->size = n;
    b->seed = seed;
    for (size_t i = 0; i + 8 <= n; i = next_place(i, n)) {
        uint64_t w = word(seed, i);

        memcpy(b->data + i, &w, 8);
    }
}

/* The first n bytes of data, as filled when there were as many as b->size says. */
static void verify(const struct block *b, size_t n)
{
    for (size_t i = 0; i + 8 <= b->size && i + 8 <= n; i = next_place(i, b->size)) {
        uint64_t w;

        memcpy(&w, b->data + i, 8);
        if (w != word(b->seed, i)) {
            check_say("block %p of %zu: byte %zu is wrong", (const void *)b, (size_t)b->size, i);
            abort();
        }
    }
}

static size_t pick_size(uint64_t r)
{
    switch (r >> 32 & 15) {
    case 0:
        return r % (256 << 10);
    case 1:
        return r % (r >> 36 & 3 ? 300 << 10 : 4 << 20);
    case 2:
    case 3:
        return r % 16384;
    default:
        return r % 700;
    }
}

static struct block *make(uint64_t r)
{
    size_t n = pick_size(r), bytes = n + sizeof(struct block), align = 16ul << (r >> 20 & 15);
    struct block *b;

    switch (r >> 56 & 15) {
    case 0:
    case 1:
    case 2:
        b = calloc(1, bytes);
        REQUIRE(b);
        for (size_t i = 0; i < bytes; i++)
            if (((unsigned char *)b)[i]) {
                check_say("calloc: byte %zu of %zu at %p is not zero", i, bytes, (void *)b);
                abort();
            }
        break;
    case 3:
        b = aligned_alloc(align, bytes);
        REQUIRE(b && ((uintptr_t)b & (align - 1)) == 0);
        break;
    case 4: {
        void *p = NULL;

        REQUIRE(posix_memalign(&p, align, bytes) == 0 && ((uintptr_t)p & (align - 1)) == 0);
        b = p;
        break;
    }
    default:
        b = malloc(bytes);
        break;
    }
    REQUIRE(b && ((uintptr_t)b & 15) == 0);
    fill(b, n, r);
    return b;
}

static void finish(struct block *b, uint64_t r)
{
    verify(b, b->size);
    if (r % 32 == 3) {
        size_t n = pick_size(r * 31), old = b->size;

        b = realloc(b, n + sizeof(struct block));
        REQUIRE(b);
        verify(b, n < old ? n : old);
        fill(b, n, r);
        verify(b, n);
    }
    free(b);
}

static void *work(void *arg)
{
    uint64_t state = (uintptr_t)arg * 7919, n = 0;

    for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        uint64_t r = check_random(&state);
        struct block *old =
            __atomic_exchange_n(&shared[(r >> 8) % SHARED], make(r), __ATOMIC_ACQ_REL);

        if (old)
            finish(old, check_random(&state));
        if (n % 100000 == 99999)
            malloc_trim(0);
    }
    return (void *)n;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    uint64_t total = 0;
    int n;

    REQUIRE(argc == 2);
    check_begin();
    n = atoi(argv[1]);
    REQUIRE(n > 0 && n <= THREADS_MAX);
    for (uintptr_t i = 0; i < (uintptr_t)n; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    usleep((useconds_t)(check_seconds(8) * 1e6));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        void *did;

        pthread_join(threads[i], &did);
        total += (uint64_t)did;
    }
    for (int i = 0; i < SHARED; i++)
        if (shared[i])
            finish(shared[i], 0);
    check_say("%lu blocks", (unsigned long)total);
    CHECK(total > 1000);
    return check_end();
}
