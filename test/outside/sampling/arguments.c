/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profile functions with arguments that make no sense, at their limits, and across fork and
 * exec. Proves that each says with its result and errno what was wrong, writes no result then, and
 * that the program goes on.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define FAILS(call, error)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK(call);                                                                               \
        CHECK_SAYS(errno == (error), "errno %d (%s)", errno, strerror(errno));                     \
    } while (0)

static void *blocks[200];

static __attribute__((noinline)) void allocate(int from, int count, size_t bytes)
{
    for (int i = from; i < from + count; i++) {
        blocks[i] = malloc(bytes);
        REQUIRE(blocks[i]);
    }
}

static void release(int from, int count)
{
    for (int i = from; i < from + count; i++)
        free(blocks[i]);
}

static int count_samples(const struct salloc_profile_sample *s, void *arg)
{
    *(double *)arg += s->alloc_count;
    return 0;
}

static double allocations(const salloc_profile *profile)
{
    double count = 0;

    CHECK(salloc_profile_iterate(profile, count_samples, &count) == 0);
    return count;
}

/* A recording's profile with the allocations of one call of allocate(), and nothing of this
 * program's else. */
static double stop_and_count(salloc_profile_token *token)
{
    salloc_profile *profile = salloc_profile_token_stop(token);
    double count;

    REQUIRE(profile);
    count = allocations(profile);
    salloc_profile_free(profile);
    return count;
}

static void test_interval(void)
{
    const int64_t set[] = {1, 4096, INT64_MAX, 2 << 20, 0, -1, INT64_MIN, 1};

    for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
        errno = 123;
        CHECK(salloc_set_sampling_interval(set[i]) == 0);
        CHECK_SAYS(salloc_get_sampling_interval() == (set[i] < 0 ? 0 : set[i]), "%ld after %ld",
                   (long)salloc_get_sampling_interval(), (long)set[i]);
        allocate(0, 50, 100);
        allocate(50, 3, 3 << 20);
        release(0, 53);
        CHECK(errno == 123);
    }
}

static void test_tokens(void)
{
    salloc_profile_token *tokens[64], *old;
    const uintptr_t nonsense[] = {
        0, 1, 63, 64, 65, 4096, (uintptr_t)&old, (uintptr_t)-1, (uintptr_t)1 << 63};

    for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++)
        FAILS(!salloc_profile_token_stop((salloc_profile_token *)nonsense[i]), EINVAL);
    errno = 123;
    for (int i = 0; i < 64; i++) {
        tokens[i] = i % 2 ? salloc_start_allocation_profile() : salloc_start_lifetime_profile();
        REQUIRE(tokens[i]);
        for (int k = 0; k < i; k++)
            CHECK(tokens[i] != tokens[k]);
    }
    CHECK(errno == 123);
    FAILS(!salloc_start_allocation_profile(), EAGAIN);
    FAILS(!salloc_start_lifetime_profile(), EAGAIN);
    allocate(0, 20, 77);
    release(0, 20);
    for (int i = 0; i < 64; i++)
        CHECK(stop_and_count(tokens[i]) == 20);
    for (int i = 0; i < 64; i++)
        FAILS(!salloc_profile_token_stop(tokens[i]), EINVAL);
    old = tokens[0];
    tokens[0] = salloc_start_allocation_profile();
    CHECK(tokens[0] && tokens[0] != old);
    FAILS(!salloc_profile_token_stop(old), EINVAL); /* not the one that came to its place */
    CHECK(stop_and_count(tokens[0]) == 0);
}

static int stop_at_third(const struct salloc_profile_sample *s, void *arg)
{
    /* What a callback may do: anything. */
    salloc_profile *other = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);

    CHECK(other && s);
    salloc_profile_free(other);
    free(malloc(100));
    return ++*(int *)arg == 3 ? -7 : 0;
}

static void test_profile(void)
{
    salloc_profile *profile, *empty;
    struct salloc_estimate estimate, before;
    const void *stack[65] = {test_interval, test_interval, test_interval};
    const double bad_levels[] = {0, 1, -0.5, 1.5, NAN, INFINITY, -INFINITY};
    int calls = 0;

    for (int i = 0; i < 5; i++)
        allocate(10 * i, 10, (size_t)100 + 50 * (size_t)i);
    profile = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    REQUIRE(profile);
    FAILS(!salloc_snapshot_profile(SALLOC_PROFILE_LIFETIMES), EINVAL);
    FAILS(!salloc_snapshot_profile((enum salloc_profile_type)5), EINVAL);
    FAILS(!salloc_snapshot_profile((enum salloc_profile_type) - 1), EINVAL);

    FAILS(salloc_profile_iterate(NULL, stop_at_third, &calls) == -1, EINVAL);
    FAILS(salloc_profile_iterate(profile, NULL, NULL) == -1, EINVAL);
    CHECK(calls == 0);
    CHECK(salloc_profile_iterate(profile, stop_at_third, &calls) == -7 && calls == 3);

    memset(&estimate, 0x5a, sizeof(estimate));
    before = estimate;
    for (size_t i = 0; i < sizeof(bad_levels) / sizeof(*bad_levels); i++)
        FAILS(salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, bad_levels[i],
                                      &estimate) == -1,
              EINVAL);
    FAILS(salloc_profile_estimate(NULL, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.9, &estimate) == -1,
          EINVAL);
    FAILS(salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.9, NULL) == -1,
          EINVAL);
    FAILS(salloc_profile_estimate(profile, NULL, 3, SALLOC_ESTIMATE_WEIGHTED, 0.9, &estimate) == -1,
          EINVAL);
    FAILS(salloc_profile_estimate(profile, NULL, 0, (enum salloc_estimator)4, 0.9, &estimate) == -1,
          EINVAL);
    FAILS(salloc_profile_estimate(profile, NULL, 0, (enum salloc_estimator) - 1, 0.9, &estimate) ==
              -1,
          EINVAL);
    CHECK(memcmp(&estimate, &before, sizeof(estimate)) == 0);
    /* A stack that is not there is a set without samples. */
    CHECK(salloc_profile_estimate(profile, stack, 3, SALLOC_ESTIMATE_WEIGHTED, 0.9, &estimate) ==
          0);
    CHECK(estimate.samples == 0 && estimate.bytes == 0 && estimate.bytes_low == 0);
    CHECK(salloc_profile_estimate(profile, stack, SIZE_MAX, SALLOC_ESTIMATE_WEIGHTED, 0.9,
                                  &estimate) == 0 &&
          estimate.samples == 0);
    for (int e = 0; e < 4; e++) {
        const double levels[] = {1e-300, 0.5, 0.999999, 1 - 1e-16};

        for (int i = 0; i < 4; i++) {
            CHECK(salloc_profile_estimate(profile, NULL, 0, (enum salloc_estimator)e, levels[i],
                                          &estimate) == 0);
            CHECK(estimate.count == 50 && estimate.bytes_low <= estimate.bytes_high);
        }
    }
    salloc_profile_free(profile);
    release(0, 50);

    empty = salloc_profile_token_stop(salloc_start_allocation_profile());
    REQUIRE(empty);
    CHECK(salloc_profile_estimate(empty, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.9, &estimate) == 0);
    CHECK(estimate.samples == 0 && estimate.count == 0 && estimate.bytes == 0);
    CHECK(allocations(empty) == 0);
    salloc_profile_free(empty);
    errno = 123;
    salloc_profile_free(NULL);
    CHECK(errno == 123);
}

/* Each of the two has a recording of its own under the same name. */
static void test_fork(void)
{
    salloc_profile_token *allocated = salloc_start_allocation_profile(),
                         *lived = salloc_start_lifetime_profile();
    int status;
    pid_t pid;

    REQUIRE(allocated && lived);
    allocate(0, 10, 100);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        alarm(20);
        check_failures = 0;
        allocate(10, 10, 100);
        release(0, 20);
        CHECK(stop_and_count(allocated) == 20);
        CHECK(stop_and_count(lived) == 20);
        FAILS(!salloc_profile_token_stop(allocated), EINVAL);
        _exit(check_end());
    }
    allocate(10, 30, 100);
    release(0, 40);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "the child ended with %#x", (unsigned)status);
    CHECK(stop_and_count(allocated) == 40);
    CHECK(stop_and_count(lived) == 40);
}

/* Of a recording nothing is left in another program. */
static void test_exec(void)
{
    static char *const arguments[] = {"true", NULL};
    int status;
    pid_t pid = fork();

    REQUIRE(pid >= 0);
    if (pid == 0) {
        salloc_start_allocation_profile();
        salloc_start_lifetime_profile();
        allocate(0, 100, 100);
        execv("/bin/true", arguments);
        _exit(9);
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "the child ended with %#x", (unsigned)status);
}

/* --- stack ------------------------------------------------------------------------------------ */

#define STACK (256 << 10)

/* What a thread does on a stack that is measured. */
struct deed {
    const char *path;
    bool idle;
};

static int pass_over(const struct salloc_profile_sample *s, void *arg)
{
    (void)s;
    (void)arg;
    return 0;
}

/* Sampling, and every function but those that write; with a path only what writes. */
static void *run_measured(void *arg)
{
    const struct deed *deed = arg;
    struct salloc_profile_query query = {
        .size = sizeof(query), .metric = SALLOC_METRIC_COUNT, .level = 0.9};
    struct salloc_estimate estimate;
    struct salloc_interval interval;
    salloc_profile_token *token;
    static salloc_profile *profile;

    if (deed->idle)
        return NULL;
    if (deed->path) {
        CHECK(salloc_profile_write_file(profile, deed->path) == 0);
        return NULL;
    }
    token = salloc_start_lifetime_profile();
    allocate(100, 20, 100);
    release(100, 20);
    profile = salloc_profile_token_stop(token);
    REQUIRE(profile && allocations(profile) == 20);
    salloc_profile_free(profile);
    for (int type = 0; type <= SALLOC_PROFILE_PEAK_HEAP; type++) {
        profile = salloc_snapshot_profile((enum salloc_profile_type)type);
        REQUIRE(profile);
        CHECK(salloc_profile_iterate_samples(profile, pass_over, NULL) == 0);
        CHECK(salloc_profile_estimate(profile, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.9, &estimate) ==
              0);
        CHECK(salloc_profile_estimate_matching(profile, &query, &interval) == 0);
        if (type != SALLOC_PROFILE_PEAK_HEAP)
            salloc_profile_free(profile);
    }
    return NULL;
}

static size_t stack_used(struct deed deed)
{
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attr;
    pthread_t thread;
    size_t unused = 0;

    REQUIRE(stack != MAP_FAILED);
    memset(stack, 0x5a, STACK);
    pthread_attr_init(&attr);
    REQUIRE(pthread_attr_setstack(&attr, stack, STACK) == 0);
    REQUIRE(pthread_create(&thread, &attr, run_measured, &deed) == 0);
    pthread_join(thread, NULL);
    while (unused < STACK && stack[unused] == 0x5a)
        unused++;
    munmap(stack, STACK);
    return STACK - unused;
}

/* What the header says of stack, beyond what a thread needs that does nothing; symbols are bound at
 * the first calls. */
static void test_small_stack(const char *folder)
{
    static const char *const endings[] = {"pb.gz", "pb", "heap", "jeprof", "collapsed", "txt"};
    size_t none = stack_used((struct deed){.idle = true}), used = stack_used((struct deed){0});
    char path[4096];

    CHECK_SAYS(used - none <= 12 << 10, "%zu bytes of stack", used - none);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "%s/small.%d.%s", folder, getpid(), endings[i]);
        used = stack_used((struct deed){.path = path});
        CHECK_SAYS(used - none <= 16 << 10, "%s: %zu bytes of stack", endings[i], used - none);
        check_say("%s: %zu bytes of stack", endings[i], used - none);
        CHECK(unlink(path) == 0);
    }
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    check_begin();
    test_interval();
    test_tokens();
    test_profile();
    test_fork();
    test_exec();
    test_small_stack(argv[1]);
    return check_end();
}
