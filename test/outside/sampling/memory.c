/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles when there is no memory, and what they leave behind. Proves that snapshots, stops and
 * files fail with ENOMEM when a mapping is refused, whichever it is, and work afterwards; that
 * nothing is lost over thousands of profiles, those that failed among them; and that sampling every
 * block under a limit of address space leaves the program its memory, only less of it. usage:
 * memory SCRATCH
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"
#include "test/outside/faults.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { BLOCKS = 1500, ROUNDS = 1600, EARLY = 200, MAPPINGS_MAX = 200 };

static void *blocks[BLOCKS];
static char path[4096];

/* Many stacks: each bit of n chooses the caller. */
static __attribute__((noinline)) void *by_stack(unsigned n, unsigned bits, size_t bytes);

static __attribute__((noinline)) void *by_other(unsigned n, unsigned bits, size_t bytes)
{
    void *p = by_stack(n, bits, bytes);

    CHECK_OPAQUE(p);
    return p;
}

static void *by_stack(unsigned n, unsigned bits, size_t bytes)
{
    void *p = !bits   ? malloc(bytes)
              : n & 1 ? by_stack(n >> 1, bits - 1, bytes)
                      : by_other(n >> 1, bits - 1, bytes);

    CHECK_OPAQUE(p);
    return p;
}

static void fill(void)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = by_stack(i, 9, 100 + i % 7 * 16);
        REQUIRE(blocks[i]);
    }
}

static void empty(void)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static size_t mappings(void)
{
    char text[4096];
    size_t lines = 0;
    ssize_t n;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

    REQUIRE(fd >= 0);
    while ((n = read(fd, text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < n; i++)
            lines += text[i] == '\n';
    close(fd);
    return lines;
}

/* KiB, exact, as VmRSS is not. */
static size_t resident(void)
{
    char text[4096], *at;
    int fd = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    ssize_t n;

    REQUIRE(fd >= 0);
    n = read(fd, text, sizeof(text) - 1);
    REQUIRE(n > 0);
    close(fd);
    text[n] = '\0';
    at = strstr(text, "Rss:");
    REQUIRE(at);
    return strtoul(at + 4, NULL, 10);
}

static int add_blocks(const struct salloc_profile_sample *s, void *arg)
{
    *(double *)arg += s->alloc_count > s->inuse_count ? s->alloc_count : s->inuse_count;
    return 0;
}

static double blocks_of(const salloc_profile *profile)
{
    double count = 0;

    salloc_profile_iterate(profile, add_blocks, &count);
    return count;
}

static salloc_profile *make_stopped(void);

/* Calls what makes a profile with the first, second, ... mapping refused until it needs no more. */
static void each_refused(const char *what, salloc_profile *(*make)(void))
{
    long n = 0;

    for (;; n++) {
        salloc_profile *profile;
        long failed;

        faults_clear();
        faults[FAULT_MMAP].after = n;
        errno = 0;
        profile = make();
        failed = faults[FAULT_MMAP].failed;
        faults_clear();
        if (!profile)
            CHECK_SAYS(failed && errno == ENOMEM, "%s, mapping %ld: errno %d", what, n, errno);
        else if (make != make_stopped) /* whose rows were made before */
            CHECK_SAYS(blocks_of(profile) >= BLOCKS, "%s, mapping %ld: blocks are missing", what,
                       n);
        salloc_profile_free(profile);
        if (!failed)
            break;
        REQUIRE(n < MAPPINGS_MAX);
    }
    check_say("%s: %ld mappings", what, n);
    CHECK(n > 0);
}

static salloc_profile *make_heap(void)
{
    return salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
}

static salloc_profile *make_peak(void)
{
    return salloc_snapshot_profile(SALLOC_PROFILE_PEAK_HEAP);
}

static salloc_profile *make_allocations(void)
{
    return salloc_snapshot_profile(SALLOC_PROFILE_ALLOCATIONS);
}

static salloc_profile *make_fragmentation(void)
{
    return salloc_snapshot_profile(SALLOC_PROFILE_FRAGMENTATION);
}

static salloc_profile_token *token;

/* A recording that cannot be stopped goes on and can be stopped later. */
static salloc_profile *make_stopped(void)
{
    salloc_profile *profile = salloc_profile_token_stop(token);

    if (profile)
        token = salloc_start_lifetime_profile();
    return profile;
}

static salloc_profile *kept;

static salloc_profile *make_file(void)
{
    return salloc_profile_write_file(kept, path) == 0 ? make_heap() : NULL;
}

static void test_refused(const char *folder)
{
    static const char *const endings[] = {"pb.gz", "pb", "heap", "jeprof", "collapsed", "txt"};

    each_refused("heap", make_heap);
    each_refused("peak", make_peak);
    each_refused("fragmentation", make_fragmentation);
    each_refused("allocations", make_allocations);
    token = salloc_start_lifetime_profile();
    REQUIRE(token);
    each_refused("lifetimes", make_stopped);
    salloc_profile_free(salloc_profile_token_stop(token));
    kept = make_heap();
    REQUIRE(kept);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "%s/memory.%d.%s", folder, getpid(), endings[i]);
        each_refused(endings[i], make_file);
        CHECK(unlink(path) == 0);
    }
    salloc_profile_free(kept);
}

/* One of everything; a third of them fail for want of memory. */
static void one_round(int round)
{
    salloc_profile_token *one = salloc_start_allocation_profile(),
                         *two = salloc_start_lifetime_profile();

    REQUIRE(one && two);
    empty();
    fill();
    for (int type = 0; type < 4; type++) {
        if (round % 3 == 0)
            faults[FAULT_MMAP].after = round / 3 % 12;
        salloc_profile_free(salloc_snapshot_profile((enum salloc_profile_type)type));
        faults_clear();
    }
    salloc_profile_free(salloc_profile_token_stop(one));
    salloc_profile_free(salloc_profile_token_stop(two));
    if (round % 50 == 0) {
        kept = make_heap();
        REQUIRE(kept && salloc_profile_write_file(kept, path) == 0);
        salloc_profile_free(kept);
    }
}

static void test_rounds(const char *folder)
{
    size_t early_kib = 0, early_maps = 0;

    snprintf(path, sizeof(path), "%s/memory.%d.pb.gz", folder, getpid());
    /* All from one place: another would be other stacks, which are kept. */
    for (int i = 0; i < ROUNDS; i++) {
        one_round(i);
        if (i % 50 == 0)
            check_say("%zu KiB and %zu mappings", resident(), mappings());
        if (i == EARLY) {
            early_kib = resident();
            early_maps = mappings();
        }
    }
    check_say("%zu KiB and %zu mappings early, %zu and %zu late", early_kib, early_maps, resident(),
              mappings());
    /*
     * One row of each profile lost would be 300 KiB more. Each of 12 failures comes in every 36th
     * round: a mapping lost at one of them would be LOST more. The kernel counts neighbours as one
     * mapping, so the same memory is up to 7 more or fewer.
     */
    enum { LOST = (ROUNDS - EARLY) / 36 };
    CHECK(resident() < early_kib + 150);
    CHECK(mappings() <= early_maps + LOST / 2);
    unlink(path);
}

/* Under a limit: blocks are sampled as long as there is room for their pages, and then are not. */
static void test_limit(void)
{
    struct rlimit limit = {256ul << 20, 256ul << 20};
    size_t count = 0, small = 0;
    void **first = NULL;

    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    for (void **p; (p = malloc(1000)) != NULL; count++) {
        *p = first;
        first = p;
    }
    check_say("%zu blocks of 1000 bytes", count);
    CHECK(count > 20000); /* nearly all had pages of their own, of 8 KiB */
    errno = 0;
    CHECK(!salloc_snapshot_profile(SALLOC_PROFILE_HEAP) && errno == ENOMEM);
    for (int i = 0; i < 1000; i++, small++) {
        void **next = first ? *first : NULL;

        free(first);
        first = next;
    }
    CHECK(small == 1000);
    while (first) {
        void **next = *first;

        free(first);
        first = next;
    }
    for (int i = 0; i < 10000; i++) {
        void *p = malloc((size_t)i);

        CHECK(p);
        free(p);
    }
    /* There may be no address space left that is not the heap's. */
    kept = make_heap();
    CHECK(kept || errno == ENOMEM);
    salloc_profile_free(kept);
}

int main(int argc, char **argv)
{
    int status;
    pid_t pid;

    REQUIRE(argc == 2);
    check_begin();
    REQUIRE(salloc_set_sampling_interval(1) == 0);
    fill();
    test_refused(argv[1]);
    test_rounds(argv[1]);
    empty();
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        check_failures = 0;
        test_limit();
        _exit(check_end());
    }
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_SAYS(status == 0, "under a limit: %#x", (unsigned)status);
    return check_end();
}
