/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for calls.py: threads allocate, mark each block as theirs, and look at the mark before
 * they free it, so that a block that two owners have is noticed. Together they come to all critical
 * sections of the library: by every function that has some, and by changes that caches undergo. A
 * debugger stops the program and calls the functions below. It ends well when `stop` is set.
 */
#include "test/outside/check.h"

#include <pthread.h>

enum { THREADS = 3, LIVE = 64, BURST = 400, TICK = 1000, ALIGN = 64, TRIM = 8 };

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

/* Functions that allocate, each with one that frees such a block. Operators have their mangled
 * names, so that no C++ compiler is needed. __size_returning_new returns the block and its size in
 * two registers, of which the first is that of a pointer. */
static struct pair {
    const char *maker, *ender;
    bool by_array; /* calloc(size, 1) */
    size_t align;  /* 0: none is told */
    void *make, *end;
} pairs[] = {
    {"malloc", "free", false, 0, NULL, NULL},
    {"malloc", "free_sized", false, 0, NULL, NULL},
    {"calloc", "cfree", true, 0, NULL, NULL},
    {"aligned_alloc", "free", false, ALIGN, NULL, NULL},
    {"_Znwm", "_ZdlPv", false, 0, NULL, NULL},
    {"_Znwm", "_ZdlPvm", false, 0, NULL, NULL},
    {"_ZnwmRKSt9nothrow_t", "_ZdlPvRKSt9nothrow_t", false, 0, NULL, NULL},
    {"_Znam", "_ZdaPv", false, 0, NULL, NULL},
    {"_Znam", "_ZdaPvm", false, 0, NULL, NULL},
    {"_ZnamRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", false, 0, NULL, NULL},
    {"_ZnwmSt11align_val_t", "_ZdlPvSt11align_val_t", false, ALIGN, NULL, NULL},
    {"__size_returning_new", "_ZdlPv", false, 0, NULL, NULL},
};

enum { PAIRS = sizeof(pairs) / sizeof(pairs[0]), REALLOC_PAIRS = 3 };

static int (*set_interval)(int64_t bytes);

static void find_functions(void)
{
    for (int i = 0; i < PAIRS; i++) {
        REQUIRE(pairs[i].make = dlsym(RTLD_DEFAULT, pairs[i].maker));
        REQUIRE(pairs[i].end = dlsym(RTLD_DEFAULT, pairs[i].ender));
    }
    set_interval = (int (*)(int64_t))dlsym(RTLD_DEFAULT, "salloc_set_sampling_interval");
    REQUIRE(set_interval);
}

static void *make(const struct pair *pair, size_t size)
{
    void *p;

    if (pair->by_array)
        p = ((void *(*)(size_t, size_t))pair->make)(size, 1);
    else if (!pair->align)
        p = ((void *(*)(size_t, const void *))pair->make)(size, "");
    else if (pair->maker[0] == '_')
        p = ((void *(*)(size_t, size_t))pair->make)(size, pair->align);
    else
        p = ((void *(*)(size_t, size_t))pair->make)(pair->align, size);
    REQUIRE(p && (uintptr_t)p % (pair->align ? pair->align : 16) == 0);
    return p;
}

/* The second argument is the size, the alignment, or one that is not looked at. */
static void end(const struct pair *pair, void *p, size_t size)
{
    ((void (*)(void *, size_t))pair->end)(p, pair->maker[0] == '_' && pair->align ? pair->align
                                                                                  : size);
}

struct owner {
    uintptr_t number;
    uint64_t seed;
    uintptr_t *block[LIVE];
    size_t words[LIVE];
    const struct pair *pair[LIVE];
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
        o->pair[k] = &pairs[(r >> 44) % PAIRS];
        o->block[k] = make(o->pair[k], words * sizeof(uintptr_t));
    } else {
        check(o, o->block[k], o->words[k]);
        if (r >> 40 & 3 || o->pair[k] - pairs >= REALLOC_PAIRS) {
            end(o->pair[k], o->block[k], o->words[k] * sizeof(uintptr_t));
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

/* Blocks that have a span of their own become large ones. */
static void grow(struct owner *o)
{
    enum { BLOCKS = 8, WORDS = 9000, MORE = 40000 };
    uintptr_t *block[BLOCKS];

    for (size_t i = 0; i < BLOCKS; i++) {
        REQUIRE(block[i] = malloc(WORDS * sizeof(uintptr_t)));
        mark(o, block[i], 2);
        REQUIRE(block[i] = realloc(block[i], MORE * sizeof(uintptr_t)));
        mark(o, block[i], 2);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        check(o, block[i], 2);
        free(block[i]);
    }
}

/* The caches are emptied, and probabilities change, so that countdowns are void. */
static void change(long turn)
{
    malloc_trim(0);
    REQUIRE(set_interval(turn / TICK / TRIM % 2 ? 64 << 10 : 2 << 20) == 0);
}

static void *work(void *arg)
{
    struct owner o = {.number = (uintptr_t)arg, .seed = (uintptr_t)arg * 7919};

    for (long turn = 0; !stop; turn++) {
        step(&o);
        if (turn % TICK == 0) {
            tick(turn);
            burst(&o);
            grow(&o);
            if (o.number == 1 && turn / TICK % TRIM == TRIM - 1)
                change(turn);
        }
    }
    for (size_t k = 0; k < LIVE; k++) {
        if (!o.block[k])
            continue;
        check(&o, o.block[k], o.words[k]);
        end(o.pair[k], o.block[k], o.words[k] * sizeof(uintptr_t));
    }
    return NULL;
}

/* What is allocated later lies beyond the window of the fast paths, whose frees have a section of
 * their own. */
static void use_window_up(void)
{
    const size_t sizes[] = {1ul << 28, 1ul << 20, 40000, 2000, 24};
    const uintptr_t window = UINTPTR_MAX << 36;
    uintptr_t first = (uintptr_t)malloc(24);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uintptr_t p = first;

        while ((p & window) == (first & window))
            REQUIRE(p = (uintptr_t)malloc(sizes[i]));
    }
}

int main(void)
{
    pthread_t threads[THREADS];

    find_functions();
    if (getenv("TEST_FAR"))
        use_window_up();
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return check_end();
}
