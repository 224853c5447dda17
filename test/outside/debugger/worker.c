/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for calls.py: threads allocate, mark each block as theirs, and look at the mark before
 * they free it, so that a block that two owners have is noticed. A debugger stops it and calls the
 * functions below. It ends well when `stop` is set.
 */
#include "test/outside/check.h"

#include <pthread.h>

enum { THREADS = 3, LIVE = 64, BURST = 400, TICK = 1000 };

/* What the debugger calls. */
void *(*volatile call_malloc)(size_t size) = malloc;
void *(*volatile call_calloc)(size_t count, size_t size) = calloc;
void *(*volatile call_realloc)(void *p, size_t size) = realloc;
void (*volatile call_free)(void *p) = free;
size_t (*volatile call_usable)(void *p) = malloc_usable_size;
pid_t (*volatile call_getpid)(void) = getpid;

void *volatile compiled; /* what code that the debugger compiles has allocated */

volatile int stop;

/* Reached all the time: where the debugger stops a program that does not come to where it waits for
 * it. */
void tick(long turn);
void __attribute__((noinline)) tick(long turn)
{
    __asm__ volatile("" : : "r"(turn) : "memory");
}

struct owner {
    uintptr_t number;
    uint64_t seed;
    uintptr_t *block[LIVE];
    size_t words[LIVE];
};

static void mark(const struct owner *o, uintptr_t *block, size_t words)
{
    for (size_t i = 0; i < words; i++)
        block[i] = (uintptr_t)block + o->number;
}

static void check(const struct owner *o, const uintptr_t *block, size_t words)
{
    for (size_t i = 0; i < words; i++) {
        if (block[i] != (uintptr_t)block + o->number) {
            check_say("block %p of thread %zu has the word %#zx at %zu", (const void *)block,
                      (size_t)o->number, (size_t)block[i], i);
            abort();
        }
    }
}

/* A block comes, goes or changes its size. */
static void step(struct owner *o)
{
    uint64_t r = check_random(&o->seed);
    size_t k = r % LIVE, words = 2 + (r >> 8) % (r >> 58 ? 20 : 2000);

    if (!o->block[k]) {
        o->block[k] = malloc(words * sizeof(uintptr_t));
    } else {
        check(o, o->block[k], o->words[k]);
        if (r >> 40 & 3) {
            free(o->block[k]);
            o->block[k] = NULL;
            return;
        }
        o->block[k] = realloc(o->block[k], words * sizeof(uintptr_t));
    }
    REQUIRE(o->block[k]);
    o->words[k] = words;
    mark(o, o->block[k], words);
}

/* More blocks of a size than caches hold. */
static void burst(struct owner *o)
{
    static __thread uintptr_t *block[BURST];
    size_t words = 2 + check_random(&o->seed) % 600;

    for (size_t i = 0; i < BURST; i++) {
        REQUIRE(block[i] = malloc(words * sizeof(uintptr_t)));
        mark(o, block[i], 2);
    }
    for (size_t i = 0; i < BURST; i++) {
        check(o, block[i], 2);
        free(block[i]);
    }
}

static void *work(void *arg)
{
    struct owner o = {.number = (uintptr_t)arg, .seed = (uintptr_t)arg * 7919};

    for (long turn = 0; !stop; turn++) {
        step(&o);
        if (turn % TICK == 0) {
            tick(turn);
            burst(&o);
        }
    }
    for (size_t k = 0; k < LIVE; k++) {
        if (o.block[k])
            check(&o, o.block[k], o.words[k]);
        free(o.block[k]);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return check_end();
}
