/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The preparation of a real-time program's heap: lock all memory, tell malloc to keep what it has,
 * touch a reserve, free it. No phase after that has more than FAULTS_MAX page faults, whatever the
 * sizes of its blocks and however it allocates, also when the program waits between. And all values
 * of mallopt, with glibc's results.
 *
 *   kept locked     as above; without the right to lock memory: skipped
 *   kept plain      nothing locked: what a first phase has touched stays resident
 *   kept mallopt    results; thresholds that are not reached keep as much; 0 ends it
 *   kept blocks     16 MiB in blocks of all sizes are as any others, whatever is sampled of them
 */
#include "test/outside/check.h"
#include "test/outside/own_stderr.h"

#include <limits.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { RESERVE = 64 << 20, LIVE = 16 << 20, BLOCKS = 1 << 18, CYCLES = 8, FAULTS_MAX = 20 };

static void *blocks[BLOCKS];

static long faults(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt + u.ru_majflt;
}

static void reserve(void)
{
    char *p = malloc(RESERVE);

    REQUIRE(p);
    memset(p, 1, RESERVE);
    CHECK_OPAQUE(p);
    free(p);
}

/* Blocks of up to max bytes, at most LIVE together, from each function in turn. */
static void phase(size_t max, uint64_t *seed)
{
    size_t live = 0;
    int n = 0;

    for (; n < BLOCKS; n++) {
        uint64_t r = check_random(seed);
        size_t size = r % max + 1;
        char *p;

        if ((live += 2 * size + 64) > LIVE)
            break;
        switch (r >> 40 & 3) {
        case 0:
            p = calloc(1, size);
            break;
        case 1:
            p = aligned_alloc(64, size);
            break;
        case 2:
            p = realloc(malloc(size / 2 + 1), size);
            break;
        default:
            p = malloc(size);
        }
        REQUIRE(p);
        memset(p, 2, size);
        blocks[n] = p;
    }
    for (int i = 0; i < n; i++)
        free(blocks[i]);
}

static void *on_thread(void *max)
{
    uint64_t seed = 5;

    for (int i = 0; i < CYCLES; i++) {
        phase((size_t)max, &seed);
        usleep(60000); /* maintenance is due every 500 ms */
    }
    return NULL;
}

static void check_phases(void)
{
    static const size_t sizes[] = {24, 400, 5000, 65536, 1 << 20};

    memset(blocks, 1, sizeof(blocks));
    __asm__ volatile("" ::"r"(blocks) : "memory");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        long before = faults(), after;

        on_thread((void *)sizes[i]);
        after = faults();
        check_say("blocks of up to %zu bytes: %ld page faults", sizes[i], after - before);
        CHECK_SAYS(after - before <= FAULTS_MAX, "%ld page faults", after - before);
    }
}

/* What is resident after 100 MiB were written to and freed, a little later. */
static size_t left(void)
{
    enum { BYTES = 100 << 20 };
    char *p = malloc(BYTES);

    REQUIRE(p);
    memset(p, 1, BYTES);
    CHECK_OPAQUE(p);
    free(p);
    for (int i = 0; i < 12; i++) {
        usleep(100000);
        free(malloc(100));
    }
    return check_status("VmRSS:");
}

static void check_mallopt(void)
{
    static const struct {
        int parameter, value, result;
    } all[] = {
        {M_MXFAST, 0, 1},
        {M_MXFAST, 160, 1},
        {M_MXFAST, 161, 0},
        {M_MXFAST, -1, 0},
        {M_TRIM_THRESHOLD, 0, 1},
        {M_TRIM_THRESHOLD, 1 << 20, 1},
        {M_TRIM_THRESHOLD, INT_MIN, 1},
        {M_TRIM_THRESHOLD, -1, 1},
        {M_TOP_PAD, 1 << 20, 1},
        {M_TOP_PAD, -1, 1},
        {M_MMAP_THRESHOLD, 0, 1},
        {M_MMAP_THRESHOLD, 32 << 20, 1},
        {M_MMAP_MAX, 0, 1},
        {M_MMAP_MAX, -1, 1},
        {M_CHECK_ACTION, 3, 1},
        {M_PERTURB, 0, 1},
        {M_ARENA_TEST, 1, 1},
        {M_ARENA_MAX, 1, 1},
        {M_ARENA_MAX, -5, 1},
        {12345, 1, 1},
    };
    size_t before = check_status("VmRSS:"), kib;

    REQUIRE(mallopt(M_TRIM_THRESHOLD, 200 << 20) == 1);
    kib = left();
    CHECK_SAYS(kib >= before + (95ul << 10), "%zu KiB, %zu before", kib, before);
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        CHECK_SAYS(mallopt(all[i].parameter, all[i].value) == all[i].result, "mallopt(%d, %d)",
                   all[i].parameter, all[i].value);
    REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    kib = left();
    CHECK_SAYS(kib >= before + (95ul << 10), "%zu KiB, %zu before", kib, before);
    CHECK(malloc_trim(0) == 1); /* a request */
    kib = check_status("VmRSS:");
    CHECK_SAYS(kib <= before + (20ul << 10), "%zu KiB, %zu before", kib, before);
    REQUIRE(mallopt(M_TRIM_THRESHOLD, 0) == 1);
    kib = left();
    CHECK_SAYS(kib <= before + (30ul << 10), "%zu KiB, %zu before", kib, before);
}

static bool has_only(const char *p, size_t n, char byte)
{
    return n == 0 || (p[0] == byte && memcmp(p, p + 1, n - 1) == 0);
}

/* Blocks keep their content, are zero where they have to be, and are freed under each size of their
 * class without a report. */
static void check_blocks(int errors)
{
    void (*free_with)(void *, size_t, int) =
        (void (*)(void *, size_t, int))(uintptr_t)dlsym(RTLD_DEFAULT, "sdallocx");
    size_t (*rounded)(size_t, int) =
        (size_t(*)(size_t, int))(uintptr_t)dlsym(RTLD_DEFAULT, "nallocx");
    static size_t sizes[BLOCKS];
    uint64_t seed = 3;
    char said[1000];
    int n = 0;

    REQUIRE(free_with && rounded);
    for (size_t live = 0; live < LIVE; n++) {
        size_t align = (size_t)16 << check_random(&seed) % 9;
        size_t size = check_random(&seed) % (n % 8 ? 2000 : 262144) + 1;
        bool zero = n % 3 == 0;
        char *p = zero ? calloc(1, size) : n % 3 == 1 ? memalign(align, size) : malloc(size);

        REQUIRE(p && malloc_usable_size(p) >= size);
        if (zero)
            CHECK(has_only(p, malloc_usable_size(p), 0));
        else if (n % 3 == 1)
            CHECK((uintptr_t)p % align == 0);
        memset(p, n, size);
        if (n % 5 == 0) {
            size_t before = size;

            p = realloc(p, size += check_random(&seed) % size);
            REQUIRE(p);
            CHECK(has_only(p, before, (char)n));
            memset(p, n, size);
        }
        blocks[n] = p;
        sizes[n] = size;
        live += size;
    }
    for (int i = 0; i < n; i++) {
        CHECK(has_only(blocks[i], sizes[i], (char)i));
        if (i % 3 == 1) /* the class of an aligned block may be another one */
            free(blocks[i]);
        else
            free_with(blocks[i], i % 2 ? sizes[i] : rounded(sizes[i], 0), 0);
    }
    CHECK_SAYS(!own_stderr_read(errors, said, sizeof(said)), "%s", said);
}

int main(int argc, char **argv)
{
    bool locked = argc > 1 && strcmp(argv[1], "locked") == 0;
    int errors = own_stderr_begin(argv);

    check_begin();
    if (argc > 1 && strcmp(argv[1], "mallopt") == 0) {
        check_mallopt();
        return check_end();
    }
    if (locked && mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        SKIP("memory cannot be locked");
    REQUIRE(mallopt(M_TRIM_THRESHOLD, -1) == 1 && mallopt(M_MMAP_MAX, 0) == 1);
    reserve();
    if (argc > 1 && strcmp(argv[1], "blocks") == 0) {
        check_blocks(errors);
        return check_end();
    }
    if (!locked)
        on_thread((void *)64);
    check_phases();
    return check_end();
}
