/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes that change: threads replace blocks of a shared table at random, and use other sizes again
 * and again, so that spans become sparse and then mixed. Blocks are freed by every thread, resized,
 * asked for their size, freed with their size, and freed in children of fork. Each block is full of
 * one byte that follows from its address, so that blocks that overlap are noticed.
 * usage: changing THREADS
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sys/wait.h>

enum { SLOTS = 1 << 15, MOST_THREADS = 64, SIZES = 8, LIVE_BYTES = 24 << 20 };

struct block {
    uint32_t size, aligned; /* aligned: by a call that names an alignment */
    unsigned char data[];
};

void free_sized(void *p, size_t size) __attribute__((weak));

static struct block *slots[SLOTS]; /* atomic: whoever takes a block out owns it */
static size_t live;                /* atomic */
static size_t sizes[SIZES];        /* atomic */
static int stop;                   /* atomic */

static unsigned char mark_of(const struct block *b)
{
    return (unsigned char)((uintptr_t)b >> 4 ^ b->size);
}

static void fill(struct block *b, size_t size, bool aligned)
{
    b->size = (uint32_t)size;
    b->aligned = aligned;
    memset(b->data, mark_of(b), size - sizeof(*b));
}

static void verify(const struct block *b, unsigned char mark, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (b->data[i] != mark) {
            check_say("block %p of %u: byte %zu is wrong", (const void *)b, b->size, i);
            abort();
        }
}

static struct block *make(size_t size, uint64_t r)
{
    struct block *b;

    if (r % 8 == 0) {
        size_t align = 16ul << (r >> 8) % 9;
        void *p = NULL;

        REQUIRE(posix_memalign(&p, align, size) == 0 && ((uintptr_t)p & (align - 1)) == 0);
        b = p;
    } else if (r % 8 == 1) {
        b = calloc(1, size);
        REQUIRE(b);
        for (size_t i = 0; i < size; i++)
            REQUIRE(((unsigned char *)b)[i] == 0);
    } else {
        b = malloc(size);
    }
    REQUIRE(b);
    fill(b, size, r % 8 == 0);
    return b;
}

static void finish(struct block *b, uint64_t r)
{
    bool sized = free_sized && !b->aligned && r % 4 == 1;
    size_t size = b->size;

    verify(b, mark_of(b), size - sizeof(*b));
    REQUIRE(malloc_usable_size(b) >= size);
    if (r % 16 == 0) {
        unsigned char mark = mark_of(b);
        size_t more = size / 2 + r % size;

        if (more < sizeof(*b))
            more = sizeof(*b);
        b = realloc(b, more);
        sized = false;
        REQUIRE(b);
        verify(b, mark, (more < size ? more : size) - sizeof(*b));
        size = more;
    }
    if (sized)
        free_sized(b, size);
    else
        free(b);
}

static void free_in_child(void)
{
    pid_t child = fork();
    int status;

    REQUIRE(child >= 0);
    if (child == 0) {
        for (size_t i = 0; i < SLOTS; i += 3) {
            struct block *b = __atomic_exchange_n(&slots[i], NULL, __ATOMIC_ACQUIRE);

            if (b)
                finish(b, 2);
        }
        for (int i = 0; i < 1000; i++)
            free(malloc(1 + (size_t)i * 7));
        _exit(0);
    }
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK_SAYS(status == 0, "child: status %#x", status);
}

static void *work(void *arg)
{
    uint64_t seed = 1 + (uintptr_t)arg;

    for (unsigned n = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); n++) {
        uint64_t r = check_random(&seed);
        struct block *b = NULL, *old;
        size_t i = r % SLOTS;

        if (n % 65536 == 65535) { /* other sizes */
            size_t most = 48ul << r % 8;

            __atomic_store_n(&sizes[(r >> 20) % SIZES], 16 + (r >> 30) % most, __ATOMIC_RELAXED);
        }
        if (arg == (void *)1 && n % (1 << 20) == (1 << 20) - 1)
            free_in_child();
        if (__atomic_load_n(&live, __ATOMIC_RELAXED) < LIVE_BYTES) {
            size_t size = __atomic_load_n(&sizes[(r >> 16) % SIZES], __ATOMIC_RELAXED);

            b = make(size, r >> 40);
            __atomic_fetch_add(&live, size, __ATOMIC_RELAXED);
        }
        old = __atomic_exchange_n(&slots[i], b, __ATOMIC_ACQ_REL);
        if (old) {
            __atomic_fetch_sub(&live, old->size, __ATOMIC_RELAXED);
            finish(old, r >> 48);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[MOST_THREADS];
    int n;

    REQUIRE(argc == 2);
    check_begin();
    n = atoi(argv[1]);
    REQUIRE(n > 0 && n <= MOST_THREADS);
    for (int i = 0; i < SIZES; i++)
        sizes[i] = 24 + 100 * (size_t)i;
    for (uintptr_t i = 0; i < (uintptr_t)n; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    usleep((useconds_t)(check_seconds(8) * 1e6));
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        if (slots[i])
            finish(slots[i], 2);
    check_say("%zu mixed spans made, %zu blocks taken", check_property("salloc.mixed_conversions"),
              check_property("salloc.mixed_taken"));
    if (argc == 2 && getenv("SALLOC_CONF") && strstr(getenv("SALLOC_CONF"), "mixed_spans:always"))
        CHECK(check_property("salloc.mixed_taken") > 0);
    return check_end();
}
