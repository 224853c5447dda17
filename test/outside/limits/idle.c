/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The idle watch: a program that fills and frees much memory and then does nothing has at most
 * 32 MiB more than what is live, ten seconds later, whatever the size of its blocks. The thread
 * that sees to this comes only where much would stay, and ends by itself. It does not come where a
 * filter of system calls might forbid it, nor when the program does not want it, and it does not
 * keep a process from its end.
 *
 * Without the watch this holds, too, for up to five fills. (The pointers to blocks of 100 bytes
 * take 41 MiB, which stay live.) It holds in whatever order the blocks are freed: objects in caches
 * do not keep their pages.
 *
 * usage: idle FILLS NUMBER... (so many fills each) | SHUFFLED NUMBER... (freed in random order) |
 * WATCH (how the thread comes and goes, with maintenance_thread:auto) | OFF (without)
 */
#include "include/salloc/salloc.h"
#include "test/outside/limits/tasks.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define NAME  "salloc-idle"
#define BYTES (512 * MIB) /* a fill */
#define MIXED 0           /* blocks of 64 bytes to 32 KiB, as many of each octave */

/* A hardened build also keeps 8 MiB of freed blocks, each of which may be alone on a page of
 * 8 KiB. */
#if SA_HARDENED
#define KEPT (32 * MIB + 72 * MIB)
#else
#define KEPT (32 * MIB)
#endif

/* Brings the blocks into an order that is random, but the same each time. */
static void shuffle(char **block, size_t n)
{
    uint64_t random = 1;

    for (size_t i = n; i > 1; i--) {
        char *p = block[i - 1];
        size_t k;

        random = random * 6364136223846793005u + 1442695040888963407u;
        k = (random >> 32) % i;
        block[i - 1] = block[k];
        block[k] = p;
    }
}

/* The size of block i. The mean of MIXED is 5451 bytes. */
static size_t size_of(size_t size, size_t i)
{
    uint64_t random = i * 6364136223846793005u + 1442695040888963407u;
    size_t from;

    if (size != MIXED)
        return size;
    random ^= random >> 29;
    random *= 0xbf58476d1ce4e5b9u;
    random ^= random >> 32;
    from = 64ul << random % 9;
    return from + (random >> 16 & (from - 1));
}

/* The blocks are found through an array, which is live. Returns its bytes. */
static size_t fill_and_free(size_t size, unsigned fills, bool shuffled)
{
    size_t n = BYTES / (size == MIXED ? 5451 : size);
    char **block = malloc(n * sizeof(*block));

    REQUIRE(block);
    for (unsigned k = 0; k < fills; k++) {
        for (size_t i = 0; i < n; i++) {
            size_t bytes = size_of(size, i);

            block[i] = malloc(bytes);
            REQUIRE(block[i]);
            memset(block[i], 1, bytes);
        }
        if (shuffled)
            shuffle(block, n);
        for (size_t i = 0; i < n; i++)
            free(block[i]);
    }
    return n * sizeof(*block);
}

static int in_child(int (*body)(const void *), const void *of)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        _exit(body(of) || check_failures);
    REQUIRE(child > 0);
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

struct fills {
    size_t size;
    unsigned fills;
    bool shuffled;
};

static int fill_and_wait(const void *of)
{
    const struct fills *f = of;
    size_t before = resident(), live = fill_and_free(f->size, f->fills, f->shuffled), left;
    double freed = check_now();

    while ((left = resident()) > before + live + KEPT && check_now() - freed < 10)
        usleep(20000);
    check_say("%7zu bytes, %u fills: %zu MiB of %zu MiB live after %.1f s", f->size, f->fills,
              left / MIB, (before + live) / MIB, check_now() - freed);
    CHECK(left <= before + live + KEPT);
    /* When it has done its work, it ends; nothing here allocates. */
    while (check_status("Threads:") > 1 && check_now() - freed < 30)
        usleep(20000);
    CHECK(check_status("Threads:") == 1);
    return 0;
}

/* All sizes at once. */
static void test_fills(unsigned fills, bool shuffled)
{
    static const size_t sizes[] = {MIXED, 100, 1000, 30000, 200000, 1000000, 5000000};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (fork() == 0)
            _exit(fill_and_wait(&(struct fills){sizes[i], fills, shuffled}) || check_failures);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int status;

        REQUIRE(wait(&status) > 0);
        CHECK(status == 0);
    }
}

/* Swings of 64 MiB until the thread is there, at most two seconds long. */
static bool swing(void)
{
    char number[32];

    for (int i = 0; i < 200 && !find_task(NAME, number); i++) {
        void *p = malloc(64 * MIB);

        REQUIRE(p);
        memset(p, 1, 64 * MIB);
        free(p);
        usleep(10000);
    }
    return find_task(NAME, number);
}

static int body_swing(const void *expected)
{
    CHECK(swing() == *(const bool *)expected);
    return 0;
}

/* Half of a large heap is free, but comes from no swing. */
static int body_once(const void *unused)
{
    (void)unused;
    fill_and_free(30000, 1, false);
    for (int i = 0; i < 20; i++) {
        free(malloc(100000));
        usleep(50000);
    }
    CHECK(!there_is(NAME, false));
    return 0;
}

static void *sleeper(void *unused)
{
    sleep(2);
    return unused;
}

/* The same in a process that has threads anyway. */
static int body_threads(const void *unused)
{
    pthread_t thread;
    char number[32];

    REQUIRE(pthread_create(&thread, NULL, sleeper, NULL) == 0);
    void **half = malloc(BYTES / 4096 * sizeof(*half));
    for (size_t i = 0; i < BYTES / 4096; i++)
        half[i] = memset(malloc(4000), 1, 4000);
    for (size_t i = 0; i < BYTES / 4096; i++)
        if (i / 1000 % 2)
            free(half[i]);
    for (int i = 0; i < 100 && !find_task(NAME, number); i++) {
        free(malloc(100000));
        usleep(20000);
    }
    CHECK(find_task(NAME, number));
    pthread_join(thread, NULL);
    (void)unused;
    return 0;
}

struct part {
    void **block;
    size_t first, end;
};

static void *free_part(void *of)
{
    struct part *p = of;

    for (size_t i = p->first; i < p->end; i++)
        free(p->block[i]);
    return NULL;
}

/* Threads fill once, free three quarters and then call nothing, not even malloc. */
static int body_last_free(const void *unused)
{
    size_t n = BYTES / 100000, left;
    void **block = malloc(n * sizeof(*block));
    pthread_t threads[2];
    double freed;

    for (size_t i = 0; i < n; i++)
        block[i] = memset(malloc(100000), 1, 100000);
    left = resident() - BYTES / 4 * 3;
    for (size_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, free_part,
                               &(struct part){block, i * n * 3 / 8, (i + 1) * n * 3 / 8}) == 0 &&
                pthread_join(threads[i], NULL) == 0);
    for (freed = check_now(); resident() > left + KEPT && check_now() - freed < 10;)
        usleep(20000);
    CHECK_SAYS(resident() <= left + KEPT, "%zu MiB, %zu MiB live", resident() / MIB, left / MIB);
    (void)unused;
    return 0;
}

/* A filter that allows everything. */
static void filter(void)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {1, &allow};

    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int body_filter(const void *unused)
{
    (void)unused;
    filter();
    CHECK(!swing());
    return 0;
}

/* The watch ends before a filter comes. */
static int body_filter_after(const void *unused)
{
    (void)unused;
    CHECK(swing());
    filter();
    CHECK(check_status("Threads:") == 1);
    CHECK(!swing());
    return 0;
}

/* A filter from before the program was executed. */
static int body_filter_before(const void *itself)
{
    filter();
    execl(itself, itself, "BEHIND_FILTER", (char *)NULL);
    return 1;
}

static int body_child(const void *unused)
{
    static const bool yes = true;

    CHECK(swing());
    CHECK(in_child(body_swing, &yes) == 0);
    (void)unused;
    return 0;
}

/* The main thread ends, and the process with its last thread. */
static int body_main_ends(const void *unused)
{
    CHECK(swing());
    (void)unused;
    alarm(5);
    pthread_exit(NULL);
}

static int body_stop(const void *unused)
{
    int (*start)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "salloc_start_maintenance_thread");
    int (*stop)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "salloc_stop_maintenance_thread");

    REQUIRE(start && stop);
    CHECK(swing());
    CHECK(start() == 0); /* instead of the watch */
    CHECK(!there_is(NAME, false) && there_is("salloc-maintain", true));
    CHECK(stop() == 0);
    CHECK(!there_is("salloc-maintain", false));
    CHECK(!swing()); /* and none comes by itself */
    (void)unused;
    return 0;
}

int main(int argc, char **argv)
{
    static const bool yes = true, no = false;

    check_begin();
    REQUIRE(argc >= 2);
    if (strcmp(argv[1], "FILLS") == 0 || strcmp(argv[1], "SHUFFLED") == 0) {
        for (int i = 2; i < argc; i++)
            test_fills((unsigned)atoi(argv[i]), argv[1][0] == 'S');
    } else if (strcmp(argv[1], "OFF") == 0) {
        CHECK(in_child(body_swing, &no) == 0);
    } else if (strcmp(argv[1], "BEHIND_FILTER") == 0) {
        CHECK(!swing());
    } else {
        CHECK(in_child(body_swing, &yes) == 0);
        CHECK(in_child(body_once, NULL) == 0);
        CHECK(in_child(body_threads, NULL) == 0);
        CHECK(in_child(body_filter, NULL) == 0);
        CHECK(in_child(body_filter_before, "/proc/self/exe") == 0);
        CHECK(in_child(body_filter_after, NULL) == 0);
        CHECK(in_child(body_last_free, NULL) == 0);
        CHECK(in_child(body_child, NULL) == 0);
        CHECK(in_child(body_main_ends, NULL) == 0);
        CHECK(in_child(body_stop, NULL) == 0);
    }
    return check_end();
}
