/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No sample is not no bytes: profiles of a heap of which nothing was sampled say how much may be in
 * it, in every format with room for it and in the functions, and that nobody knows when sampling
 * was off. 669,696 bytes at an interval of 1 GiB: one run in 1600 has a sample, and this seed none.
 *
 *   unseen FOLDER
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <fcntl.h>
#include <math.h>

#define BLOCKS 5232
#define BYTES  128
#define MIB    1048576.0

static char text[1 << 20];

static struct salloc_estimate estimate(salloc_profile *p)
{
    struct salloc_estimate e;

    REQUIRE(p && salloc_profile_estimate(p, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, 0.95, &e) == 0);
    CHECK(e.bytes_low <= e.bytes && e.bytes <= e.bytes_high && e.count <= e.count_high);
    return e;
}

static struct salloc_estimate estimate_type(enum salloc_profile_type type)
{
    salloc_profile *p = salloc_snapshot_profile(type);
    struct salloc_estimate e = estimate(p);

    salloc_profile_free(p);
    return e;
}

/* The file of a heap profile says this. */
static void expect_in_file(const char *folder, const char *ending, const char *what)
{
    salloc_profile *p = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    char path[4096];
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/unseen.%d.%s", folder, (int)getpid(), ending);
    REQUIRE(p && salloc_profile_write_file(p, path) == 0);
    salloc_profile_free(p);
    fd = open(path, O_RDONLY);
    REQUIRE(fd >= 0);
    n = read(fd, text, sizeof(text) - 1);
    REQUIRE(n > 0);
    close(fd);
    unlink(path);
    text[n] = '\0';
    CHECK_SAYS(memmem(text, (size_t)n, what, strlen(what)), "%s: no \"%s\"", ending, what);
}

static void expect_in_files(const char *folder, const char *what)
{
    static const char *const endings[] = {"txt", "pb", "heap", "jeprof"};

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
        expect_in_file(folder, endings[i], what);
}

int main(int argc, char **argv)
{
    static void *block[BLOCKS];
    salloc_profile_token *before, *within;
    salloc_profile *p;
    struct salloc_estimate e;
    double high = 0, bound = 3.6889 * 1024 * MIB;

    REQUIRE(argc == 2);
    check_begin();
    before = salloc_start_allocation_profile();
    for (int i = 0; i < BLOCKS; i++) {
        REQUIRE((block[i] = malloc(BYTES)) != NULL);
        high += (double)malloc_usable_size(block[i]);
    }
    for (int type = 0; type <= SALLOC_PROFILE_ALLOCATIONS; type++) {
        e = estimate_type((enum salloc_profile_type)type);
        CHECK(e.samples == 0 && e.bytes == 0 && e.bytes_low == 0 && e.count_low == 0);
        CHECK_SAYS(fabs(e.bytes_high / bound - 1) < 1e-4, "%d: up to %.0f bytes", type,
                   e.bytes_high);
        CHECK_SAYS(e.count_high >= BLOCKS && e.count_high <= e.bytes_high / 8 * 1.001,
                   "%d: up to %.0f blocks", type, e.count_high);
    }
    expect_in_files(argv[1], "0 bytes (95 % interval 0 to 3960");
    expect_in_file(argv[1], "txt", "few samples: sample_interval:");

    /* What is older than a change is bounded by the memory that was in use then, also of what
     * nobody tried. */
    REQUIRE(salloc_set_sampling_interval(64 * 1024) == 0);
    within = salloc_start_allocation_profile();
    e = estimate_type(SALLOC_PROFILE_HEAP);
    CHECK_SAYS(high <= e.bytes_high && e.bytes_high < 32 * MIB, "up to %.0f bytes", e.bytes_high);
    e = estimate_type(SALLOC_PROFILE_ALLOCATIONS);
    CHECK_SAYS(fabs(e.bytes_high / bound - 1) < 1e-4, "ever: up to %.0f bytes", e.bytes_high);
    e = estimate(p = salloc_profile_token_stop(within));
    CHECK_SAYS(e.samples || e.bytes_high < 256 * 1024, "within: up to %.0f", e.bytes_high);
    salloc_profile_free(p);
    e = estimate(p = salloc_profile_token_stop(before));
    CHECK_SAYS(e.bytes_high > 0.99 * bound, "before: up to %.0f", e.bytes_high);
    salloc_profile_free(p);

    /* When it is off, nothing is known of what comes; when it is on again, how much that was at
     * most. */
    within = salloc_start_allocation_profile();
    REQUIRE(salloc_set_sampling_interval(0) == 0);
    e = estimate_type(SALLOC_PROFILE_HEAP);
    CHECK(isinf(e.bytes_high) && isinf(e.count_high));
    expect_in_files(argv[1], "no upper end is known");
    expect_in_file(argv[1], "txt", "sampling is off: blocks allocated meanwhile");
    REQUIRE(salloc_set_sampling_interval(64 * 1024) == 0);
    e = estimate_type(SALLOC_PROFILE_HEAP);
    CHECK_SAYS(high <= e.bytes_high && e.bytes_high < 32 * MIB, "up to %.0f bytes", e.bytes_high);
    e = estimate(p = salloc_profile_token_stop(within));
    CHECK(isinf(e.bytes_high));
    salloc_profile_free(p);

    /* Where every block is in the sample, nothing is missing. */
    REQUIRE(salloc_set_sampling_interval(1) == 0);
    within = salloc_start_allocation_profile();
    free(malloc(100));
    e = estimate(p = salloc_profile_token_stop(within));
    CHECK(e.samples == 1 && e.bytes_high == e.bytes && e.count_high == 1);
    salloc_profile_free(p);
    for (int i = 0; i < BLOCKS; i++)
        free(block[i]);
    return check_end();
}
