/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples on both sides of 256 KiB, where size classes end, behave alike although the larger ones
 * have no window of their own: profiles have what is resident of them, they end before an
 * inaccessible page, and their memory is inaccessible after free. The last two are with every block
 * sampled and guarded (SALLOC_CONF).
 *
 * usage: class_limit resident|guarded
 *
 * Of residency each interval is at the level 1 - 1e-5, and there are 6.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#define LEVEL  (1 - 1e-5)
#define BYTES  (64ul << 20) /* of each size */
#define GUARDS 40

static const size_t sizes[] = {200000, 262144, 262145, 300000, 1000000, 3000000};

#define SIZES (sizeof(sizes) / sizeof(*sizes))

static size_t page, size;

static int of_size(const struct salloc_profile_sample *s, void *arg)
{
    (void)arg;
    return s->requested_size == size;
}

/* Bytes of the block's pages that are in memory. */
static size_t in_memory(const char *p)
{
    static unsigned char pages[1024];
    size_t start = (size_t)p / page * page, sum = 0;
    size_t n = ((size_t)p + malloc_usable_size((void *)p) - start + page - 1) / page;

    REQUIRE(n <= sizeof(pages) && mincore((void *)start, n * page, pages) == 0);
    for (size_t i = 0; i < n; i++)
        sum += pages[i] & 1 ? page : 0;
    return sum;
}

/* Of each block every third page is written. */
static void check_resident(void)
{
    static char *block[BYTES / 200000];
    size_t n = BYTES / size;
    struct salloc_profile_query query = {
        .size = sizeof(query), .match = of_size, .metric = SALLOC_METRIC_RESIDENT, .level = LEVEL};
    struct salloc_interval x;
    salloc_profile *p;
    double truth = 0;

    for (size_t i = 0; i < n; i++) {
        REQUIRE((block[i] = malloc(size)) != NULL);
        for (size_t at = 0; at < size; at += 3 * page)
            block[i][at] = 1;
    }
    for (size_t i = 0; i < n; i++)
        truth += (double)in_memory(block[i]);
    p = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    REQUIRE(p && salloc_profile_estimate_matching(p, &query, &x) == 0);
    salloc_profile_free(p);
    check_say("%zu bytes: %.0f resident, estimated %.0f to %.0f from %lu samples", size, truth,
              x.low, x.high, (unsigned long)x.samples);
    CHECK(x.low <= truth && truth <= x.high && x.high < 2 * truth);
    for (size_t i = 0; i < n; i++)
        free(block[i]);
}

/* Whether a byte can be read, as the kernel says. */
static bool readable(const char *p)
{
    static int ends[2] = {-1, -1};
    char byte;

    if (ends[0] < 0)
        REQUIRE(pipe(ends) == 0);
    return write(ends[1], p, 1) == 1 && read(ends[0], &byte, 1) == 1;
}

static void check_guarded(void)
{
    int before_guard = 0, kept = 0;

    for (int i = 0; i < GUARDS; i++) {
        char *p = malloc(size), *end;

        REQUIRE(p);
        p[0] = p[size - 1] = 1;
        end = (char *)(((size_t)p + size + page - 1) / page * page);
        while (end < p + malloc_usable_size(p)) /* pages of salloc's are longer */
            end += page;
        before_guard += !readable(end);
        free(p);
        kept += !readable(p) && !readable(p + size - 1);
    }
    check_say("%zu bytes: %d of %d end before a guard, %d are inaccessible when freed", size,
              before_guard, GUARDS, kept);
    CHECK(before_guard == GUARDS && kept == GUARDS);
}

int main(int argc, char **argv)
{
    check_begin();
    REQUIRE(argc == 2);
    page = (size_t)sysconf(_SC_PAGESIZE);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* or more would be resident than was written */
    for (size_t i = 0; i < SIZES; i++) {
        if (strcmp(argv[1], "resident") == 0) {
            size = sizes[i];
            check_resident();
        } else { /* the longest first: at most 8 blocks leave the quarantine for one that enters, so
                  * that a long one does not always find room among short ones */
            size = sizes[SIZES - 1 - i];
            check_guarded();
        }
    }
    return check_end();
}
