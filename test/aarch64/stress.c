/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate, resize, hand over and free blocks while everything that can break a
 * restartable sequence happens to them: preemption (more threads than CPUs), migration, signals,
 * fences (releasing memory stops the CPUs) and fork. Every byte of every block is written when it
 * is allocated and checked before it is resized or freed, so a block given out twice, or lost and
 * found again, shows.
 *
 * Usage: stress SECONDS THREADS [restarts | spoil]
 *   restarts  goes on (up to four times as long) until the kernel has restarted a sequence, and
 *             fails as inconclusive if it never did
 *   spoil     damages one block; the run then has to fail: it proves that the checks can
 *
 * Exit status: 0 all contents right; 1 wrong content; 2 not run under salloc, or wrong arguments;
 * 3 inconclusive.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS      256 /* per thread */
#define MAILBOXES   64
#define THREADS_MAX 64
#define SIGNAL_US   3000

struct block {
    unsigned char *p;
    size_t size;
    uint64_t seed;
};

struct worker {
    pthread_t thread;
    unsigned number;
    uint64_t rng, operations, handed;
    struct block blocks[BLOCKS];
};

static _Atomic(struct block *) mailbox[MAILBOXES];
static atomic_bool stop;
static atomic_ulong signals;
static atomic_uint spoil;
static struct worker workers[THREADS_MAX];
static int (*get_property)(const char *, size_t *);
static size_t (*release_memory)(size_t);

static uint64_t next(uint64_t *rng)
{
    uint64_t z = *rng += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static uint64_t content(uint64_t seed, size_t word)
{
    return (seed + word) * 0x9e3779b97f4a7c15ull;
}

static void fill(const struct block *b)
{
    size_t at = 0;
    uint64_t w;

    for (; at + 8 <= b->size; at += 8) {
        w = content(b->seed, at / 8);
        memcpy(b->p + at, &w, 8);
    }
    w = content(b->seed, at / 8);
    memcpy(b->p + at, &w, b->size - at);
}

static void wrong(const struct block *b, size_t at, const char *what)
{
    printf("stress: %s: block %p of %zu bytes, byte %zu\n", what, (void *)b->p, b->size, at);
    fflush(stdout);
    _exit(1);
}

/* The first `size` bytes of a block that may be longer. */
static void check(const struct block *b, size_t size)
{
    size_t at = 0;
    uint64_t w;

    for (; at + 8 <= size; at += 8) {
        w = content(b->seed, at / 8);
        if (memcmp(b->p + at, &w, 8) != 0)
            wrong(b, at, "content changed");
    }
    w = content(b->seed, at / 8);
    if (memcmp(b->p + at, &w, size - at) != 0)
        wrong(b, at, "content changed");
}

static size_t pick_size(uint64_t *rng)
{
    uint64_t r = next(rng);

    switch (r % 64) {
    case 0:
        return 1 + (r >> 8) % 300000; /* the largest classes and beyond */
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        return 1 + (r >> 8) % 20000;
    default:
        return 1 + (r >> 8) % 400;
    }
}

static void allocate(struct worker *me, struct block *b)
{
    uint64_t r = next(&me->rng);
    size_t align = 16;

    b->size = pick_size(&me->rng);
    b->seed = next(&me->rng);
    if (r % 8 == 0) {
        b->p = calloc(1, b->size);
        for (size_t i = 0; b->p && i < b->size; i++)
            if (b->p[i])
                wrong(b, i, "calloc is not zero");
    } else if (r % 8 == 1) {
        align = 16u << (r >> 8) % 9;
        b->p = aligned_alloc(align, b->size);
    } else {
        b->p = malloc(b->size);
    }
    if (!b->p)
        wrong(b, 0, "out of memory");
    if ((uintptr_t)b->p % align)
        wrong(b, 0, "not aligned");
    fill(b);
}

static void resize(struct worker *me, struct block *b)
{
    size_t old = b->size;

    check(b, old);
    b->size = pick_size(&me->rng);
    b->p = realloc(b->p, b->size);
    if (!b->p)
        wrong(b, 0, "out of memory");
    check(b, old < b->size ? old : b->size);
    b->seed = next(&me->rng);
    fill(b);
}

/* Swaps a block with whatever another thread left; its record travels in a block of its own. */
static void hand_over(struct worker *me, struct block *b)
{
    struct block *out = malloc(sizeof(*out)), *in;

    *out = *b;
    in = atomic_exchange(&mailbox[next(&me->rng) % MAILBOXES], out);
    b->p = NULL;
    if (in) {
        check(in, in->size);
        free(in->p);
        free(in);
        me->handed++;
    }
}

static void migrate(struct worker *me)
{
    cpu_set_t set;
    long cpus = sysconf(_SC_NPROCESSORS_CONF);
    uint64_t r = next(&me->rng);

    CPU_ZERO(&set);
    for (long i = 0; i < cpus; i++)
        if (r % 4 == 0 || (uint64_t)i == (r >> 8) % (uint64_t)cpus)
            CPU_SET((int)i, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void *work(void *arg)
{
    struct worker *me = arg;

    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint64_t r = next(&me->rng);
        struct block *b = &me->blocks[r % BLOCKS];

        me->operations++;
        if (!b->p) {
            allocate(me, b);
        } else if (r >> 32 & 8) {
            hand_over(me, b);
        } else if (r >> 32 & 16) {
            resize(me, b);
        } else {
            check(b, b->size);
            free(b->p);
            b->p = NULL;
        }
        if (me->operations % 512 == 0)
            migrate(me);
        if (me->number == 0 && me->operations % 4096 == 0)
            release_memory(SIZE_MAX);
        if (me->number == 0 && atomic_load(&spoil) && b->p && me->operations > 1000) {
            b->p[b->size / 2] ^= 1;
            atomic_store(&spoil, 0);
        }
    }
    return NULL;
}

static void count_signal(int sig)
{
    (void)sig;
    atomic_fetch_add_explicit(&signals, 1, memory_order_relaxed);
}

/* The child has one thread and the parent's caches, in whatever state the others left them. */
static void fork_once(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        struct worker *me = calloc(1, sizeof(*me));

        me->rng = 7;
        for (int round = 0; round < 2; round++)
            for (int i = 0; i < BLOCKS; i++) {
                if (me->blocks[i].p) {
                    check(&me->blocks[i], me->blocks[i].size);
                    free(me->blocks[i].p);
                }
                allocate(me, &me->blocks[i]);
            }
        _exit(0);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || status != 0) {
        printf("stress: the forked child failed (%d, status %#x)\n", (int)pid, (unsigned)status);
        fflush(stdout);
        _exit(1);
    }
}

static size_t restarts(void)
{
    size_t n = 0;

    get_property("salloc.sections_restarted", &n);
    return n;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void drain(struct worker *me)
{
    for (int i = 0; i < BLOCKS; i++)
        if (me->blocks[i].p) {
            check(&me->blocks[i], me->blocks[i].size);
            free(me->blocks[i].p);
        }
}

int main(int argc, char **argv)
{
    struct itimerval every = {{0, SIGNAL_US}, {0, SIGNAL_US}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = count_signal, .sa_flags = SA_RESTART};
    sigset_t alarms;
    const char *mode = argc > 3 ? argv[3] : "";
    double begin = seconds(), length = argc > 1 ? atof(argv[1]) : 0;
    unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 0, forks = 0;
    bool need = strcmp(mode, "restarts") == 0;
    uint64_t operations = 0, handed = 0;

    get_property =
        (int (*)(const char *, size_t *))dlsym(RTLD_DEFAULT, "salloc_get_numeric_property");
    release_memory = (size_t(*)(size_t))dlsym(RTLD_DEFAULT, "salloc_release_free_memory");
    if (length <= 0 || !threads || threads > THREADS_MAX || !get_property || !release_memory) {
        printf("stress: not run under salloc, or wrong arguments\n");
        return 2;
    }
    atomic_store(&spoil, strcmp(mode, "spoil") == 0);
    sigaction(SIGALRM, &action, NULL);
    for (unsigned i = 0; i < threads; i++) {
        workers[i].number = i;
        workers[i].rng = i + 1;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 2;
    }
    /* This thread only forks and waits: the signals are for the others. */
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    while (seconds() - begin < (need && !restarts() ? 4 * length : length)) {
        struct timespec pause = {0, 300000000};

        nanosleep(&pause, NULL);
        fork_once();
        forks++;
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        drain(&workers[i]);
        operations += workers[i].operations;
        handed += workers[i].handed;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (unsigned i = 0; i < MAILBOXES; i++) {
        struct block *in = atomic_exchange(&mailbox[i], NULL);

        if (in) {
            check(in, in->size);
            free(in->p);
            free(in);
        }
    }
    printf("stress: %llu operations, %llu handed over, %lu signals, %u forks, %zu restarts: %s\n",
           (unsigned long long)operations, (unsigned long long)handed, atomic_load(&signals), forks,
           restarts(), need && !restarts() ? "inconclusive" : "all contents right");
    return need && !restarts() ? 3 : 0;
}
