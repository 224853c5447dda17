/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three things that a profile says of the heap, against what the program knows: free memory held up
 * by what is live, resident bytes, the heap when it was largest. Each is an estimate from some
 * hundred samples or more, with a fixed seed, which fixes the outcome but where a restartable
 * sequence is restarted (estimates.c); the bound is at least three standard errors.
 *
 *   profiles fragmentation | fragmentation_lent | residency | peak
 *
 * With SALLOC_TEST_FULL=1 the first has 32 Mi objects (4 GiB) and the default interval.
 */
#include "include/salloc/profile.h"
#include "include/salloc/salloc.h"
#include "test/outside/check.h"
#include "test/outside/estimates/same.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/prctl.h>

/* A table outside the heap. */
static void *table(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(p != MAP_FAILED);
    return p;
}

static salloc_profile *snapshot(enum salloc_profile_type type)
{
    salloc_profile *p = salloc_snapshot_profile(type);

    REQUIRE(p != NULL);
    return p;
}

struct sums {
    double waste, resident, swapped, zero, inuse;
    uint64_t samples;
};

static int add(const struct salloc_profile_sample *sample, void *arg)
{
    struct sums *s = arg;

    s->waste += sample->fragmentation_bytes;
    s->resident += sample->resident_bytes;
    s->swapped += sample->swapped_bytes;
    s->zero += sample->zero_bytes;
    s->inuse += sample->inuse_bytes;
    s->samples += sample->inuse_count > 0 ? sample->samples : 0;
    return 0;
}

static struct sums sums_of(enum salloc_profile_type type)
{
    salloc_profile *p = snapshot(type);
    struct sums s = {0};

    REQUIRE(salloc_profile_iterate(p, add, &s) == 0);
    salloc_profile_free(p);
    return s;
}

static void expect(const char *what, double is, double truth, double part, uint64_t samples)
{
    check_say("%s: estimated %.0f, is %.0f (%+.2f %%), %lu samples", what, is, truth,
              (is / truth - 1) * 100, (unsigned long)samples);
    CHECK_SAYS(fabs(is / truth - 1) <= part, "allowed: %.0f %%", part * 100);
}

/*
 * N objects of 115 bytes, every fifth kept: their neighbours' 128 bytes each are the waste, on
 * spans after the caches have been emptied. Of n bytes kept, n / interval are sampled: 1600, one
 * standard error is 2.5 %; with SALLOC_TEST_FULL=1 400 and 5 %.
 */
static void fragmentation(void)
{
    bool full = getenv("SALLOC_TEST_FULL") != NULL;
    size_t n = full ? 32ul << 20 : 2ul << 20;
    void **objects = table(n * sizeof(*objects));
    struct sums s;

    if (!full)
        REQUIRE(salloc_set_sampling_interval(32 * 1024) == 0);
    for (size_t i = 0; i < n; i++, same_now_ns += 100)
        REQUIRE((objects[i] = malloc(115)) != NULL);
    REQUIRE(malloc_usable_size(objects[0]) == 128);
    for (size_t i = 0; i < n; i++)
        if (i % 5)
            free(objects[i]);
    salloc_release_free_memory(SIZE_MAX);
    s = sums_of(SALLOC_PROFILE_FRAGMENTATION);
    expect("fragmentation", s.waste, (double)n * 4 / 5 * 128, 0.15, s.samples);
    for (size_t i = 0; i < n; i += 5)
        free(objects[i]);
    s = sums_of(SALLOC_PROFILE_FRAGMENTATION);
    CHECK(s.waste < 1e6);
}

/*
 * The same of objects of more than a page, 7 on a span of 8 pages, whose proxies are lent. Each is
 * kept with chance 1/5, about 8000: with k kept on a span, 7 - k are the waste if k > 0, which is 7
 * * 0.8 - 7 * 0.8^7 on average. One in 8.3 is sampled, which is a standard error of 4 %. When as
 * many are allocated again, spans are full.
 */
static void fragmentation_lent(void)
{
    enum { BYTES = 9216, N = 40000 };
    static void *objects[N];
    uint64_t seed = 1;
    struct sums s;

    REQUIRE(salloc_set_sampling_interval(72 * 1024) == 0);
    for (size_t i = 0; i < N; i++, same_now_ns += 100)
        REQUIRE((objects[i] = malloc(BYTES)) != NULL);
    for (size_t i = 0; i < N; i++)
        if (check_random(&seed) % 5) {
            free(objects[i]);
            objects[i] = NULL;
        }
    salloc_release_free_memory(SIZE_MAX);
    s = sums_of(SALLOC_PROFILE_FRAGMENTATION);
    expect("fragmentation", s.waste, N / 7.0 * (7 * 0.8 - 7 * pow(0.8, 7)) * BYTES, 0.15,
           s.samples);
    for (size_t i = 0; i < N; i++)
        if (!objects[i])
            REQUIRE((objects[i] = malloc(BYTES)) != NULL);
    s = sums_of(SALLOC_PROFILE_FRAGMENTATION);
    CHECK_SAYS(s.waste < (double)N * BYTES / 20, "%.0f bytes where spans are full", s.waste);
    for (size_t i = 0; i < N; i++)
        free(objects[i]);
    s = sums_of(SALLOC_PROFILE_FRAGMENTATION);
    CHECK(s.waste < 1e6);
}

/*
 * Blocks from a page to 1 MiB, of which every third page is touched. Sizes are such that most
 * blocks are sampled (p is 0.06 to 1); the standard error is below 1.5 %.
 */
static void residency(void)
{
    enum { N = 6000 };
    static char *block[N];
    uint64_t random = 0x2e51d;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    double touched = 0, zero = 0;
    struct sums s;

    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* or more would be resident than was touched */
    REQUIRE(salloc_set_sampling_interval(64 * 1024) == 0);
    for (int i = 0; i < N; i++) {
        size_t size = page << check_random(&random) % 9;

        same_now_ns += 100000;
        REQUIRE((block[i] = aligned_alloc(page, size)) != NULL);
        for (size_t at = 0; at < size; at += 3 * page) {
            bool one = check_random(&random) % 2;

            block[i][at + check_random(&random) % page] = one;
            touched += (double)page;
            zero += one ? 0 : (double)page;
        }
    }
    s = sums_of(SALLOC_PROFILE_HEAP);
    expect("residency", s.resident, touched, 0.05, s.samples);
    expect("full of zeros", s.zero, zero, 0.07, s.samples);
    CHECK(s.swapped == 0);
    for (int i = 0; i < N; i++)
        free(block[i]);
    s = sums_of(SALLOC_PROFILE_HEAP);
    CHECK(s.resident < 1e5);
}

/* Twice a rise and a fall, the second lower. 300 MB are 4600 sampled bytes: one standard error
 * is 1.5 %. */
static void peak(void)
{
    enum { N = 4000000 };
    static const double high[] = {300e6, 200e6};
    void **block = table(N * sizeof(*block));
    uint64_t random = 0x9ea4;
    double live = 0, max = 0;
    size_t n = 0;
    struct sums s;

    REQUIRE(salloc_set_sampling_interval(64 * 1024) == 0);
    for (int wave = 0; wave < 2; wave++) {
        while (live < high[wave]) {
            size_t size = 16 + check_random(&random) % (1ul << (5 + check_random(&random) % 12));

            REQUIRE(n < N && (block[n] = malloc(size)) != NULL);
            same_now_ns += 100;
            live += (double)malloc_usable_size(block[n++]);
            max = live > max ? live : max;
            if (check_random(&random) % 4 == 0) {
                size_t i = check_random(&random) % n;

                live -= (double)malloc_usable_size(block[i]);
                free(block[i]);
                block[i] = block[--n];
            }
        }
        s = sums_of(SALLOC_PROFILE_HEAP);
        expect("heap in use", s.inuse, live, 0.06, s.samples);
        while (n > 1000) {
            size_t i = check_random(&random) % n;

            live -= (double)malloc_usable_size(block[i]);
            free(block[i]);
            block[i] = block[--n];
        }
        s = sums_of(SALLOC_PROFILE_PEAK_HEAP);
        expect("peak", s.inuse, max, 0.05, s.samples);
    }
    while (n)
        free(block[--n]);
    s = sums_of(SALLOC_PROFILE_PEAK_HEAP);
    expect("peak", s.inuse, max, 0.05, s.samples);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 2);
    same_addresses(argv);
    check_begin();
    if (strcmp(argv[1], "fragmentation") == 0)
        fragmentation();
    else if (strcmp(argv[1], "fragmentation_lent") == 0)
        fragmentation_lent();
    else if (strcmp(argv[1], "residency") == 0)
        residency();
    else
        peak();
    CHECK(same_clock_asked);
    return check_end();
}
