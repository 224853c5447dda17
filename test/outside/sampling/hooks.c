/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of samples, with every block sampled: each allocation and each free comes once, in that
 * order, with what the program knows of it; hooks that allocate; hooks that come and go while
 * threads allocate; a child of fork.
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BLOCKS  1000
#define THREADS 4
#define LIVE    65536 /* slots for live handles; far more than this program has blocks */

static void *blocks[BLOCKS];

/* What a hook has seen. */
static struct seen {
    uint64_t live[LIVE];                /* atomic: handles, or 0; see exchange */
    uint64_t allocated, freed, strange; /* atomic; strange: frees of what was not allocated */
    struct salloc_sample_event last;    /* of the main thread */
    pid_t thread;
} seen;

static pid_t own_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Replaces a value in the slots of a handle. Handles that are 65536 apart share them. */
static void exchange(struct seen *s, uint64_t handle, uint64_t from, uint64_t to)
{
    for (unsigned i = 0; i < 64; i++) {
        uint64_t expected = from;

        if (__atomic_compare_exchange_n(&s->live[(handle + i) % LIVE], &expected, to, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return;
    }
    count(&s->strange);
}

static void watch(const struct salloc_sample_event *event, void *arg)
{
    struct seen *s = arg;

    if (event->event == SALLOC_EVENT_ALLOCATED) {
        count(&s->allocated);
        exchange(s, event->handle, 0, event->handle);
    } else {
        count(&s->freed);
        exchange(s, event->handle, event->handle, 0);
    }
    if (own_tid() == s->thread)
        s->last = *event;
}

static __attribute__((noinline)) void *make(size_t size)
{
    void *p = malloc(size);

    CHECK_OPAQUE(p);
    return p;
}

static __attribute__((noinline)) void drop(void *p)
{
    free(p);
    CHECK_OPAQUE(p);
}

static bool is_in(const void *pc, void *function)
{
    return (uintptr_t)pc - (uintptr_t)function < 128;
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void test_fields(void)
{
    const struct salloc_sample_event *e = &seen.last;
    int64_t before = now_ns(), freed;
    uint64_t handle;
    void *p = make(1000), *q;

    CHECK(e->size == sizeof(*e) && e->event == SALLOC_EVENT_ALLOCATED);
    CHECK(e->kind == SALLOC_KIND_MALLOC && e->address == p && e->requested_size == 1000);
    CHECK(e->allocated_size == malloc_usable_size(p) || e->allocated_size >= 1000);
    CHECK_SAYS(e->weight == 1, "%g", e->weight);
    CHECK(e->depth > 0 && is_in(e->stack[0], (void *)make));
    CHECK(e->free_stack == NULL && e->free_depth == 0 && e->free_thread == 0 && e->free_cpu == -1);
    CHECK(e->thread == (unsigned)own_tid() && e->cpu >= 0);
    CHECK_SAYS(e->time_ns >= before - 1000000 && e->time_ns <= now_ns() + 1000000, "%lld ns",
               (long long)(e->time_ns - before));
    handle = e->handle;
    usleep(2000);
    freed = now_ns();
    drop(p);
    CHECK(e->event == SALLOC_EVENT_FREED && e->handle == handle && e->address == p);
    CHECK(e->requested_size == 1000 && e->depth > 0 && is_in(e->stack[0], (void *)make));
    CHECK(e->free_depth > 0 && is_in(e->free_stack[0], (void *)drop));
    CHECK(e->free_thread == (unsigned)own_tid() && e->free_cpu >= 0);
    CHECK_SAYS(e->free_time_ns >= freed - 1000000 && e->free_time_ns <= now_ns() + 1000000,
               "%lld ns", (long long)(e->free_time_ns - freed));
    CHECK(e->free_time_ns - e->time_ns >= 2000000);

    q = aligned_alloc(256, 512);
    CHECK(e->kind == SALLOC_KIND_ALIGNED && e->alignment == 256 && e->address == q);
    q = realloc(q, 100000); /* moves: the new one comes before the end of the old one */
    CHECK(e->event == SALLOC_EVENT_FREED && e->requested_size == 512);
    drop(q);
    q = make(3000000);
    CHECK(e->allocated_size >= 3000000 && e->requested_size == 3000000);
    drop(q);
    CHECK(e->event == SALLOC_EVENT_FREED && e->address == q);
}

/* All blocks of a time come and go. */
static void test_counts(void)
{
    uint64_t allocated = seen.allocated, freed = seen.freed;

    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = make((size_t)i * 37 % 5000);
    CHECK(seen.allocated - allocated == BLOCKS && seen.freed == freed);
    for (int i = 0; i < BLOCKS; i++)
        drop(blocks[i]);
    CHECK(seen.allocated - allocated == BLOCKS && seen.freed - freed == BLOCKS);
    CHECK(seen.strange == 0);
}

static int nested;

/* Allocates and frees; also the block of a sample from before. */
static void allocate_inside(const struct salloc_sample_event *event, void *arg)
{
    void **victim = arg, *p = *victim;

    (void)event;
    nested++;
    for (size_t size = 1; size < 1000000; size *= 7)
        drop(make(size));
    *victim = NULL;
    drop(p);
}

static void test_nesting(void)
{
    void *victim = make(5000);
    uint64_t allocated = seen.allocated, freed = seen.freed;

    REQUIRE(salloc_add_sample_hook(allocate_inside, &victim) == 0);
    drop(make(100));
    CHECK(nested == 3); /* the block, the victim inside of its call, the free of the block */
    CHECK(seen.allocated - allocated == 1 && seen.freed - freed == 2 && seen.strange == 0);
    REQUIRE(salloc_remove_sample_hook(allocate_inside, &victim) == 0);
    drop(make(100));
    CHECK(nested == 3);
}

static void test_table(void)
{
    int args[8];

    errno = 0;
    CHECK(salloc_add_sample_hook(NULL, NULL) == -1 && errno == EINVAL);
    CHECK(salloc_remove_sample_hook(watch, args) == -1 && errno == ENOENT);
    for (int i = 1; i < 8; i++)
        CHECK(salloc_add_sample_hook(allocate_inside, &args[i]) == 0);
    CHECK(salloc_add_sample_hook(allocate_inside, &args[0]) == -1 && errno == EAGAIN);
    CHECK(salloc_remove_sample_hook(allocate_inside, &args[0]) == -1);
    for (int i = 1; i < 8; i++)
        CHECK(salloc_remove_sample_hook(allocate_inside, &args[i]) == 0);
    CHECK(salloc_remove_sample_hook(allocate_inside, &args[1]) == -1);
}

/* A hook that is only ever called with an argument of its own. */
static int first, second, mixed; /* mixed: atomic */

static void hook_first(const struct salloc_sample_event *event, void *arg)
{
    (void)event;
    if (arg != &first)
        __atomic_store_n(&mixed, 1, __ATOMIC_RELAXED);
}

static void hook_second(const struct salloc_sample_event *event, void *arg)
{
    (void)event;
    if (arg != &second)
        __atomic_store_n(&mixed, 1, __ATOMIC_RELAXED);
}

static int stop; /* atomic */

static void *worker(void *arg)
{
    uint64_t rng = (uintptr_t)arg;
    void *own[64] = {NULL};

    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        size_t i = check_random(&rng) % 64;

        free(own[i]);
        own[i] = malloc(check_random(&rng) % 3000);
    }
    for (int i = 0; i < 64; i++)
        free(own[i]);
    return NULL;
}

static void test_threads(void)
{
    pthread_t threads[THREADS];
    double end = check_now() + check_seconds(1);

    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    while (check_now() < end) {
        CHECK(salloc_add_sample_hook(hook_first, &first) == 0);
        CHECK(salloc_remove_sample_hook(hook_first, &first) == 0);
        CHECK(salloc_add_sample_hook(hook_second, &second) == 0);
        CHECK(salloc_remove_sample_hook(hook_second, &second) == 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(!mixed && seen.strange == 0);
}

static void test_fork(void)
{
    uint64_t allocated = seen.allocated;
    int status;
    pid_t child = fork();

    if (child == 0) {
        seen.thread = getpid();
        drop(make(100));
        _exit(seen.allocated > allocated && seen.strange == 0 &&
                      seen.last.thread == (unsigned)getpid()
                  ? 0
                  : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    check_begin();
    salloc_set_sampling_interval(1);
    drop(make(100)); /* what the first sample maps is not this program's business */
    seen.thread = own_tid();
    REQUIRE(salloc_add_sample_hook(watch, &seen) == 0);
    test_fields();
    test_counts();
    test_nesting();
    test_table();
    test_fork();
    test_threads();
    REQUIRE(salloc_remove_sample_hook(watch, &seen) == 0);
    seen.allocated = 0;
    drop(make(100));
    CHECK(seen.allocated == 0);
    return check_end();
}
