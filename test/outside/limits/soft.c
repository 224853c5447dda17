/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A soft limit: while less than that is in use, what the process has of memory stays within 1.05 of
 * it, however much has been freed; beyond, the program is told once for each crossing, from a call
 * that may allocate, free, fork and ask for reports; it goes on in a child of fork.
 *
 * usage: soft
 */
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#define MIB   (1ul << 20)
#define LIMIT (200 * MIB)

/* Of the program itself, and its libraries. */
#define PROGRAM (8 * MIB)

static int (*set_limit)(enum salloc_memory_limit, size_t);
static int (*set_callback)(void (*)(void *), void *);
static size_t (*get_limit)(enum salloc_memory_limit);
static char *(*get_stats)(void);

static size_t resident(void)
{
    char text[64];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof(text) - 1);
    char *end;

    close(fd);
    REQUIRE(n > 0);
    text[n] = '\0';
    strtoul(text, &end, 10);
    return strtoul(end, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Blocks of ever other sizes, up to 150 MiB of them, in one thread's part of the table. */
enum { BLOCKS = 20000, THREADS = 4 };
static void *blocks[THREADS][BLOCKS];
static size_t sizes[THREADS][BLOCKS];
static size_t max; /* atomic: resident */

static void *churn(void *arg)
{
    size_t me = (uintptr_t)arg, in_use = 0, at = 0;
    uint64_t seed = me + 1;

    for (int phase = 0; phase < 10; phase++) {
        size_t largest = 64ul << (phase * 7 + me) % 15;

        for (int i = 0; i < 60000; i++) {
            uint64_t r = check_random(&seed);
            size_t k = at++ % BLOCKS, size = 16 + r % largest;

            if (blocks[me][k]) {
                free(blocks[me][k]);
                blocks[me][k] = NULL;
                in_use -= sizes[me][k];
            }
            if (in_use + size > 120 * MIB / THREADS)
                continue;
            blocks[me][k] = malloc(size);
            REQUIRE(blocks[me][k]);
            memset(blocks[me][k], 1, size);
            sizes[me][k] = size;
            in_use += size;
            if (i % 256 == 0) {
                size_t now = resident(), before = __atomic_load_n(&max, __ATOMIC_RELAXED);

                while (now > before &&
                       !__atomic_compare_exchange_n(&max, &before, now, false, __ATOMIC_RELAXED,
                                                    __ATOMIC_RELAXED))
                    ;
            }
        }
    }
    for (size_t k = 0; k < BLOCKS; k++)
        free(blocks[me][k]);
    return NULL;
}

static void test_footprint(void)
{
    pthread_t thread[THREADS];
    size_t before = resident();

    REQUIRE(set_limit(SALLOC_SOFT_LIMIT, LIMIT) == 0);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&thread[i], NULL, churn, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    CHECK_SAYS(max <= before + LIMIT + LIMIT / 20 + PROGRAM, "%zu bytes resident, %zu before", max,
               before);
    CHECK(check_property("salloc.soft_limit_calls") == 0);
}

static int calls, inside;

static void tell(void *arg)
{
    void *p[100];
    char *text;
    pid_t child;
    int status;

    CHECK(arg == &calls);
    CHECK(!inside);
    inside = 1;
    calls++;
    for (int i = 0; i < 100; i++) {
        p[i] = malloc(MIB);
        CHECK(p[i] != NULL);
    }
    for (int i = 0; i < 100; i++)
        free(p[i]);
    text = get_stats();
    CHECK(text && strstr(text, "PARAMETER desired_usage_limit_bytes 209715200\n"));
    free(text);
    child = fork();
    if (child == 0) {
        free(malloc(300 * MIB)); /* still within the call: nobody is told */
        _exit(calls != 1 || check_failures);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    errno = EBADF; /* the program that allocates is not to see this */
    inside = 0;
}

static void test_callback(void)
{
    static char *p[400];
    pid_t child;
    int status;

    REQUIRE(set_callback(tell, &calls) == 0);
    errno = 0;
    for (int i = 0; i < 300; i++) {
        p[i] = malloc(MIB);
        CHECK(p[i] && errno == 0);
        memset(p[i], 1, MIB);
    }
    CHECK_SAYS(calls == 1, "%d calls", calls);
    child = fork();
    if (child == 0) { /* the crossing is inherited, and so is all the rest */
        p[300] = malloc(MIB);
        calls = calls == 1 ? 0 : -1;
        for (int i = 0; i < 300; i++)
            free(p[i]);
        set_callback(NULL, NULL);
        set_limit(SALLOC_SOFT_LIMIT, 10 * MIB);
        p[0] = malloc(20 * MIB);
        _exit(calls != 0 || check_failures);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    for (int i = 0; i < 300; i++)
        free(p[i]);
    CHECK(check_property("generic.physical_memory_used") <= LIMIT);
    CHECK(calls == 1);
}

static void test_arguments(void)
{
    errno = 0;
    CHECK(set_limit(SALLOC_SOFT_LIMIT, 0) == -1 && errno == EINVAL);
    CHECK(set_limit(SALLOC_HARD_LIMIT, 0) == -1 && errno == EINVAL);
    CHECK(set_limit((enum salloc_memory_limit)2, MIB) == -1 && errno == EINVAL);
    CHECK(set_limit(SALLOC_HARD_LIMIT, (size_t)PTRDIFF_MAX + 1) == -1 && errno == ERANGE);
    CHECK(get_limit(SALLOC_SOFT_LIMIT) == LIMIT);
    CHECK(get_limit(SALLOC_HARD_LIMIT) == SALLOC_NO_LIMIT);
    /* A soft limit above the hard one: the hard one holds. */
    errno = 0;
    CHECK(set_limit(SALLOC_HARD_LIMIT, 150 * MIB) == 0 && errno == 0);
    CHECK(!malloc(160 * MIB) && errno == ENOMEM);
    CHECK(set_limit(SALLOC_HARD_LIMIT, SALLOC_NO_LIMIT) == 0);
    CHECK(set_limit(SALLOC_SOFT_LIMIT, SALLOC_NO_LIMIT) == 0);
    CHECK(get_limit(SALLOC_SOFT_LIMIT) == SALLOC_NO_LIMIT);
}

int main(void)
{
    check_begin();
    set_limit =
        (int (*)(enum salloc_memory_limit, size_t))dlsym(RTLD_DEFAULT, "salloc_set_memory_limit");
    get_limit = (size_t(*)(enum salloc_memory_limit))dlsym(RTLD_DEFAULT, "salloc_get_memory_limit");
    set_callback =
        (int (*)(void (*)(void *), void *))dlsym(RTLD_DEFAULT, "salloc_set_soft_limit_callback");
    get_stats = (char *(*)(void))dlsym(RTLD_DEFAULT, "salloc_get_stats");
    REQUIRE(set_limit && get_limit && set_callback && get_stats);
    test_footprint();
    test_callback();
    test_arguments();
    return check_end();
}
