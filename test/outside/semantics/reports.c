/* SPDX-License-Identifier: Apache-2.0 */
/*
 * glibc's reporting and tuning calls: mallinfo, mallinfo2, mallopt, malloc_trim, malloc_info,
 * malloc_stats. Proves that what they say follows what the program does.
 */
#include "test/outside/check.h"

#include <errno.h>
#include <fcntl.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* mallinfo is what is tested */

enum { BLOCKS = 100, BYTES = 100000 };
static void *v[BLOCKS];

static void test_mallinfo(void)
{
    struct mallinfo2 before = mallinfo2(), during, after;
    struct mallinfo narrow;

    for (int i = 0; i < BLOCKS; i++) {
        v[i] = malloc(BYTES);
        REQUIRE(v[i]);
        memset(v[i], 1, BYTES);
    }
    during = mallinfo2();
    narrow = mallinfo();
    for (int i = 0; i < BLOCKS; i++)
        free(v[i]);
    malloc_trim(0);
    after = mallinfo2();
    /* Each block is at least as large as asked for and at most an eighth larger. */
    CHECK_SAYS(during.uordblks - before.uordblks >= (size_t)BLOCKS * BYTES &&
                   during.uordblks - before.uordblks <= (size_t)BLOCKS * BYTES * 9 / 8,
               "in use: %zu, then %zu", before.uordblks, during.uordblks);
    CHECK_SAYS(after.uordblks < before.uordblks + BYTES, "in use after: %zu", after.uordblks);
    CHECK_SAYS((size_t)narrow.uordblks >= (size_t)BLOCKS * BYTES, "%d", narrow.uordblks);
    CHECK(during.arena + during.hblkhd >= during.uordblks);
    v[0] = malloc(50 << 20);
    during = mallinfo2();
    CHECK(during.uordblks >= 50 << 20 && during.hblks >= 1);
    free(v[0]);
}

static void test_mallopt(void)
{
    static const int known[] = {M_MXFAST,   M_TRIM_THRESHOLD, M_TOP_PAD,   M_MMAP_THRESHOLD,
                                M_MMAP_MAX, M_CHECK_ACTION,   M_ARENA_MAX, M_ARENA_TEST};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        CHECK_SAYS(mallopt(known[i], 1) == 1, "mallopt(%d)", known[i]);
    CHECK(mallopt(12345, 1) == 1); /* as glibc */
}

/* Memory that is free goes back when asked for, and 1 is the answer. */
static void test_trim(void)
{
    size_t full, trimmed;

    for (int i = 0; i < BLOCKS; i++) {
        v[i] = malloc(1 << 20);
        REQUIRE(v[i]);
        memset(v[i], 1, 1 << 20);
    }
    full = check_status("VmRSS:");
    for (int i = 0; i < BLOCKS; i++)
        free(v[i]);
    CHECK(malloc_trim(0) == 1 ||
          SA_HARDENED); /* freed large blocks give it back by themselves there */
    trimmed = check_status("VmRSS:");
    CHECK_SAYS(trimmed + 90 * 1024 < full, "%zu KiB resident, then %zu", full, trimmed);
    CHECK(malloc_trim(0) == 0);
}

/*
 * malloc_trim(pad) keeps pad bytes of free memory, give or take a few hugepages. Half of the blocks
 * stay in use and must not count: with pad taken from all memory, no free memory would be kept.
 * Where the machine stands still for two seconds, maintenance releases first: then try again.
 */
static void test_trim_pad(void)
{
    const size_t pad = 20 << 20, slack = 6 << 20;
    struct mallinfo2 full = {0}, trimmed = {0};

    if (SA_HARDENED) /* freed large blocks give their pages back by themselves */
        return;
    for (int tries = 0; full.keepcost <= pad + slack && tries < 10; tries++) {
        for (int i = 0; i < BLOCKS; i++) {
            v[i] = malloc(1 << 20);
            REQUIRE(v[i]);
            memset(v[i], 1, 1 << 20);
        }
        for (int i = 0; i < BLOCKS / 2; i++)
            free(v[i]);
        full = mallinfo2();
        malloc_trim(pad);
        trimmed = mallinfo2();
        for (int i = BLOCKS / 2; i < BLOCKS; i++)
            free(v[i]);
    }
    CHECK_SAYS(full.keepcost > pad + slack && trimmed.keepcost <= pad + slack &&
                   trimmed.keepcost + slack >= pad,
               "free and backed: %zu bytes, then %zu", full.keepcost, trimmed.keepcost);
    malloc_trim(0);
    CHECK_SAYS(mallinfo2().keepcost < 1 << 20, "%zu", mallinfo2().keepcost);
}

static void test_info(void)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);

    REQUIRE(f);
    CHECK(malloc_info(0, f) == 0);
    fclose(f);
    REQUIRE(text);
    CHECK(strncmp(text, "<malloc version=\"", 17) == 0);
    CHECK(n > 10 && strcmp(text + n - 10, "</malloc>\n") == 0);
    free(text);
    f = fopen("/dev/null", "w");
    REQUIRE(f);
    CHECK(malloc_info(1, f) == EINVAL);
    fclose(f);
}

/* malloc_stats writes something to stderr, and to nothing else. */
static void test_stats(void)
{
    char path[] = "/tmp/salloc-reports-XXXXXX", text[64] = "";
    int file = mkstemp(path), kept = dup(STDERR_FILENO);

    REQUIRE(file >= 0 && kept >= 0);
    unlink(path);
    REQUIRE(dup2(file, STDERR_FILENO) >= 0);
    malloc_stats();
    REQUIRE(dup2(kept, STDERR_FILENO) >= 0);
    CHECK_SAYS(lseek(file, 0, SEEK_END) > 500, "%ld bytes", (long)lseek(file, 0, SEEK_END));
    CHECK(pread(file, text, sizeof(text) - 1, 0) > 0 && strstr(text, "---"));
    close(file);
    close(kept);
}

int main(void)
{
    check_begin();
    test_mallinfo();
    test_mallopt();
    test_trim();
    test_trim_pad();
    test_info();
    test_stats();
    return check_end();
}
