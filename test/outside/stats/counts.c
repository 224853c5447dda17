/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was ever allocated and freed is told to the block and to the byte, whatever threads, CPUs
 * and caches it went through: threads use all functions and sizes and count themselves, and when
 * they rest the figures have grown by as much. Meanwhile no figure goes down. A child of fork goes
 * on from where its parent was.
 *
 * Where every block is sampled, what was not asked for is told to the byte, too.
 *
 * usage: counts [blocks|hardened|every]    bytes are not compared, as usable sizes do not tell
 *                                          them; hardened: nor are blocks
 * resized, as usable sizes do not tell whether they have stayed
 */
#include "test/outside/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { THREADS = 5, STEPS = 60000, SLOTS = 300 };

struct counts {
    size_t allocations, bytes, frees, frees_bytes;
};

static int (*get)(const char *, size_t *);
static pthread_barrier_t begin, end, leave;
static struct counts own[THREADS];
static bool done; /* atomic */
static bool resizes = true;

static size_t value(const char *name)
{
    size_t value = 0;

    CHECK_SAYS(get(name, &value) == 0, "%s", name);
    return value;
}

static struct counts read_counts(void)
{
    return (struct counts){value("salloc.allocations"), value("salloc.allocations_bytes"),
                           value("salloc.frees"), value("salloc.frees_bytes")};
}

static void count_alloc(struct counts *c, void *p)
{
    c->allocations++;
    c->bytes += malloc_usable_size(p);
}

static void count_free(struct counts *c, size_t usable)
{
    c->frees++;
    c->frees_bytes += usable;
}

static size_t pick(uint64_t *seed)
{
    uint64_t r = check_random(seed);

    if (r % 500 == 0)
        return 262145 + (r >> 32) % 3000000;
    return (r >> 32) % ((size_t)16 << (r >> 16) % 12) + 1;
}

static void *allocate(uint64_t *seed)
{
    size_t size = pick(seed);
    void *p = NULL;

    switch (check_random(seed) % 6) {
    case 0:
        return calloc(1, size);
    case 1:
        return aligned_alloc(64, size);
    case 2:
        return posix_memalign(&p, 8192 << check_random(seed) % 3, size) == 0 ? p : NULL;
    default:
        return malloc(size);
    }
}

/* A block that stays where it is was freed and allocated if it is longer or shorter. */
static void *resize(struct counts *c, void *p, size_t size)
{
    size_t before = malloc_usable_size(p);
    uintptr_t was = (uintptr_t)p;

    p = realloc(p, size);
    REQUIRE(p);
    if ((uintptr_t)p != was || malloc_usable_size(p) != before) {
        count_alloc(c, p);
        count_free(c, before);
    }
    return p;
}

/* What was allocated by another thread is freed by this one, now and then. */
static void *shared[64]; /* atomic */

static void step(struct counts *c, uint64_t *seed, void **slot)
{
    if (!*slot) {
        *slot = allocate(seed);
        REQUIRE(*slot);
        count_alloc(c, *slot);
    } else if (resizes && check_random(seed) % 4 == 0) {
        *slot = resize(c, *slot, pick(seed));
    } else {
        if (check_random(seed) % 3 == 0)
            *slot = __atomic_exchange_n(&shared[check_random(seed) % 64], *slot, __ATOMIC_ACQ_REL);
        if (*slot) {
            count_free(c, malloc_usable_size(*slot));
            free(*slot);
        }
        *slot = NULL;
    }
}

static void move_on(unsigned to)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(to % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void *work(void *arg)
{
    size_t index = (size_t)arg;
    uint64_t seed = index + 77;
    void *slots[SLOTS] = {NULL};

    pthread_barrier_wait(&begin);
    for (unsigned i = 0; i < STEPS; i++) {
        if (i % 500 == 0)
            move_on((unsigned)index + i / 500);
        step(&own[index], &seed, &slots[check_random(&seed) % SLOTS]);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        if (!slots[i])
            continue;
        count_free(&own[index], malloc_usable_size(slots[i]));
        free(slots[i]);
    }
    pthread_barrier_wait(&end);
    pthread_barrier_wait(&leave); /* the end of a thread moves what its cache holds */
    return NULL;
}

static void *watch(void *unused)
{
    struct counts before = read_counts(), now;

    while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
        now = read_counts();
        CHECK(now.allocations >= before.allocations && now.bytes >= before.bytes);
        CHECK(now.frees >= before.frees && now.frees_bytes >= before.frees_bytes);
        before = now;
        usleep(500);
    }
    return unused;
}

static void compare(struct counts before, struct counts now, const struct counts *by, bool bytes,
                    const char *what)
{
    CHECK_SAYS(now.allocations - before.allocations == by->allocations,
               "%s: %zu allocations, not %zu", what, now.allocations - before.allocations,
               by->allocations);
    CHECK_SAYS(now.frees - before.frees == by->frees, "%s: %zu frees, not %zu", what,
               now.frees - before.frees, by->frees);
    if (!bytes)
        return;
    CHECK_SAYS(now.bytes - before.bytes == by->bytes, "%s: %zu bytes allocated, not %zu", what,
               now.bytes - before.bytes, by->bytes);
    CHECK_SAYS(now.frees_bytes - before.frees_bytes == by->frees_bytes,
               "%s: %zu bytes freed, not %zu", what, now.frees_bytes - before.frees_bytes,
               by->frees_bytes);
}

/* A thousand of each size, the first of its class and the others. */
static void test_each_size(bool bytes)
{
    static void *blocks[1000];

    for (size_t size = 16; size <= 600000; size = size * 5 / 4) {
        struct counts before = read_counts(), all = {0};

        for (size_t i = 0; i < 1000; i++) {
            blocks[i] = malloc(size);
            REQUIRE(blocks[i]);
            count_alloc(&all, blocks[i]);
        }
        compare(before, read_counts(), &all, bytes, "allocated");
        for (size_t i = 0; i < 1000; i++) {
            count_free(&all, malloc_usable_size(blocks[i]));
            free(blocks[i]);
        }
        compare(before, read_counts(), &all, bytes, "freed");
    }
}

static void test_threads(bool bytes)
{
    pthread_t threads[THREADS], watcher;
    struct counts before, now, all = {0};

    pthread_barrier_init(&begin, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    pthread_barrier_init(&leave, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    REQUIRE(pthread_create(&watcher, NULL, watch, NULL) == 0);
    usleep(50000); /* until all have their first blocks, which libc allocates for them */
    before = read_counts();
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
    now = read_counts();
    pthread_barrier_wait(&leave);
    for (size_t i = 0; i < THREADS; i++) {
        all.allocations += own[i].allocations;
        all.bytes += own[i].bytes;
        all.frees += own[i].frees;
        all.frees_bytes += own[i].frees_bytes;
    }
    compare(before, now, &all, bytes, "threads");
    __atomic_store_n(&done, true, __ATOMIC_RELAXED);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(watcher, NULL);
}

static void test_child(bool bytes)
{
    struct counts before = read_counts();
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        struct counts all = {0}, none = {0};

        compare(before, read_counts(), &none, bytes, "child");
        for (int i = 0; i < 1000; i++) {
            void *p = malloc(100);

            REQUIRE(p);
            count_alloc(&all, p);
            count_free(&all, malloc_usable_size(p));
            free(p);
        }
        compare(before, read_counts(), &all, bytes, "child");
        _exit(check_failures != 0);
    }
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
}

static void test_every(void)
{
    static const size_t sizes[] = {1, 1000, 1024, 5000, 300000};
    static void *blocks[5][40];
    size_t before = value("tcmalloc.sampled_internal_fragmentation"), slack = 0;

    for (size_t i = 0; i < 5 * 40; i++) {
        void *p = malloc(sizes[i % 5]);

        REQUIRE(p);
        slack += malloc_usable_size(p) - sizes[i % 5];
        blocks[i % 5][i / 5] = p;
    }
    CHECK_SAYS(value("tcmalloc.sampled_internal_fragmentation") - before == slack, "%zu, not %zu",
               value("tcmalloc.sampled_internal_fragmentation") - before, slack);
    CHECK(slack > 100000);
    for (size_t i = 0; i < 5 * 40; i++)
        free(blocks[i % 5][i / 5]);
    CHECK(value("tcmalloc.sampled_internal_fragmentation") == before);
}

int main(int argc, char **argv)
{
    bool bytes = argc == 1;

    resizes = bytes || strcmp(argv[1], "blocks") == 0;
    get = (int (*)(const char *, size_t *))dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    REQUIRE(get);
    if (argc > 1 && strcmp(argv[1], "every") == 0) {
        test_every();
        return check_end();
    }
    test_each_size(bytes);
    test_threads(bytes);
    test_child(bytes);
    return check_end();
}
