/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single samples say which block, thread and time they are of, and add up to the rows; intervals of
 * any set of samples contain what the program knows of it: of a thread, of a function with all it
 * calls, of a size, resident, wasted, lived. Two threads allocate blocks of two sizes; every second
 * page of the large ones is touched, every second small one is freed again. Each interval is at the
 * level 1 - 1e-5, and there are 20: the test fails by chance once in 5000 times if the seed does
 * not fix the outcome.
 */
#include "include/salloc/profile.h"
#include "test/outside/check.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define SMALL 20000
#define LARGE 300
#define LEVEL (1 - 1e-5)

static struct owner {
    uint32_t thread;
    void *small[SMALL], *large[LARGE];
    double small_bytes, large_bytes, touched;
} owners[2];

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static __attribute__((noinline)) void *allocate(size_t bytes)
{
    void *p = malloc(bytes);

    REQUIRE(p);
    return p;
}

/* In a section of its own, so that its end is known. */
extern char __start_text_small[], __stop_text_small[];

static __attribute__((noinline, section("text_small"))) void allocate_small(struct owner *o)
{
    for (int i = 0; i < SMALL; i++)
        o->small[i] = allocate(200);
    for (int i = 0; i < SMALL; i++) {
        if (i % 2) {
            free(o->small[i]);
            o->small[i] = NULL;
        } else {
            o->small_bytes += (double)malloc_usable_size(o->small[i]);
        }
    }
}

static void *run(void *arg)
{
    struct owner *o = arg;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    o->thread = (uint32_t)syscall(SYS_gettid);
    allocate_small(o);
    for (int i = 0; i < LARGE; i++) {
        REQUIRE((o->large[i] = aligned_alloc(page, 16 * page)) != NULL);
        o->large_bytes += (double)malloc_usable_size(o->large[i]);
        for (size_t at = 0; at < 16 * page; at += 2 * page) {
            ((char *)o->large[i])[at] = 1;
            o->touched += (double)page;
        }
    }
    return NULL;
}

static const struct owner *owner_of(uint32_t thread)
{
    for (int i = 0; i < 2; i++)
        if (owners[i].thread == thread)
            return &owners[i];
    return NULL;
}

static bool owns(const struct owner *o, const void *address)
{
    for (int i = 0; i < SMALL; i++)
        if (o->small[i] == address)
            return true;
    for (int i = 0; i < LARGE; i++)
        if (o->large[i] == address)
            return true;
    return false;
}

struct sums {
    double count, bytes, resident, waste;
    uint64_t samples, ours;
    int64_t from, to;
};

static int add(const struct salloc_profile_sample *s, void *arg)
{
    struct sums *sums = arg;

    CHECK(s->size == sizeof(*s));
    sums->count += s->inuse_count;
    sums->bytes += s->inuse_bytes;
    sums->resident += s->resident_bytes;
    sums->waste += s->fragmentation_bytes;
    sums->samples += s->inuse_count > 0 ? s->samples : 0;
    return 0;
}

static int add_single(const struct salloc_profile_sample *s, void *arg)
{
    struct sums *sums = arg;
    const struct owner *o = owner_of(s->thread);

    CHECK(s->samples == 1 && s->thread && s->address);
    CHECK_SAYS(sums->from - 20000000 <= s->time_ns && s->time_ns <= sums->to + 20000000,
               "%lld is not within %lld and %lld", (long long)s->time_ns, (long long)sums->from,
               (long long)sums->to);
    CHECK(!o || owns(o, s->address));
    sums->ours += o != NULL;
    return add(s, arg);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static void check_singles(enum salloc_profile_type type, int64_t from)
{
    salloc_profile *p = salloc_snapshot_profile(type);
    struct sums rows = {.from = from}, singles = {.from = from, .to = now()};
    int stop = 0;

    REQUIRE(p && salloc_profile_iterate(p, add, &rows) == 0);
    REQUIRE(salloc_profile_iterate_samples(p, add_single, &singles) == 0);
    CHECK(rows.samples == singles.samples && near(singles.bytes, rows.bytes));
    CHECK(near(singles.count, rows.count) && near(singles.resident, rows.resident));
    CHECK(near(singles.waste, rows.waste));
    CHECK_SAYS(singles.ours > 100, "%d: %lu samples", (int)type, (unsigned long)singles.ours);
    CHECK(salloc_profile_iterate_samples(p, NULL, &stop) == -1 && errno == EINVAL);
    salloc_profile_free(p);
}

static int of_thread(const struct salloc_profile_sample *s, void *arg)
{
    return s->thread == *(uint32_t *)arg;
}

static int of_large(const struct salloc_profile_sample *s, void *arg)
{
    return owner_of(s->thread) && s->allocated_size >= *(size_t *)arg;
}

/* All samples with allocate_small in the stack, whatever it called. */
static int of_function(const struct salloc_profile_sample *s, void *arg)
{
    for (size_t i = 0; i < s->depth; i++)
        if ((char *)s->stack[i] > __start_text_small && (char *)s->stack[i] < __stop_text_small)
            return 1;
    (void)arg;
    return 0;
}

static int of_size(const struct salloc_profile_sample *s, void *arg)
{
    (void)arg;
    return s->requested_size == 300;
}

static int of_none(const struct salloc_profile_sample *s, void *arg)
{
    (void)s;
    (void)arg;
    return 0;
}

static struct salloc_interval ask(const salloc_profile *p, enum salloc_metric metric,
                                  int (*match)(const struct salloc_profile_sample *, void *),
                                  void *arg)
{
    struct salloc_profile_query query = {
        .size = sizeof(query), .match = match, .arg = arg, .metric = metric, .level = LEVEL};
    struct salloc_interval x = {0, -1, -1, -1};

    CHECK(salloc_profile_estimate_matching(p, &query, &x) == 0);
    CHECK_SAYS(x.low <= x.value && x.value <= x.high, "%g, %g to %g", x.value, x.low, x.high);
    return x;
}

static void expect(const char *what, struct salloc_interval x, double truth)
{
    check_say("%s: %.0f is %.0f to %.0f, estimated %.0f from %lu samples", what, truth, x.low,
              x.high, x.value, (unsigned long)x.samples);
    CHECK(x.low <= truth * (1 + 1e-12) && truth <= x.high * (1 + 1e-12));
}

/* The profile's table, in memory that the next call uses again. */
static const char *table(const salloc_profile *p)
{
    static char text[1 << 20];
    int fd = memfd_create("table", 0);
    char path[20];
    ssize_t n;

    snprintf(path, sizeof(path), "fd:%d", fd);
    REQUIRE(fd >= 0 && salloc_profile_write_file(p, path) == 0);
    n = pread(fd, text, sizeof(text) - 1, 0);
    REQUIRE(n > 0);
    text[n] = '\0';
    close(fd);
    return text;
}

/* The table has a line like the format, with the total of a metric and the interval that the
 * function gives. */
static void check_table(const salloc_profile *p, enum salloc_metric metric, const char *format)
{
    struct salloc_profile_query query = {.size = sizeof(query), .metric = metric, .level = 0.95};
    const char *at = table(p);
    struct salloc_interval x;
    double value, low, high;
    int n = 0;

    REQUIRE(salloc_profile_estimate_matching(p, &query, &x) == 0);
    for (; n != 3 && at; at = strchr(at + 1, '\n')) /* where a line begins */
        n = sscanf(at, format, &value, &low, &high);
    CHECK_SAYS(n == 3, "no line \"%s\"", format + 1);
    /* Each row of the table is rounded, ends are once; there are less than 100 rows. */
    CHECK_SAYS(n == 3 && fabs(value - x.value) <= 100 && fabs(low - x.low) <= 1 &&
                   fabs(high - x.high) <= 1,
               "%s: %.0f, %.0f, %.0f, not %.0f, %.0f, %.0f", format + 1, value, low, high, x.value,
               x.low, x.high);
}

static void check_heap(void)
{
    salloc_profile *p = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    struct salloc_estimate all;
    struct salloc_interval x, y;
    size_t large = 32768;
    double small = 0, sum = 0;

    REQUIRE(p && salloc_profile_estimate(p, NULL, 0, SALLOC_ESTIMATE_WEIGHTED, LEVEL, &all) == 0);
    x = ask(p, SALLOC_METRIC_BYTES, NULL, NULL);
    CHECK(near(x.value, all.bytes) && near(x.low, all.bytes_low) && near(x.high, all.bytes_high));
    x = ask(p, SALLOC_METRIC_COUNT, NULL, NULL);
    CHECK(near(x.value, all.count) && near(x.high, all.count_high) && x.samples == all.samples);
    for (int i = 0; i < 2; i++) {
        struct owner *o = &owners[i];

        x = ask(p, SALLOC_METRIC_BYTES, of_thread, &o->thread);
        expect("bytes of a thread", x, o->small_bytes + o->large_bytes);
        expect("blocks of a thread", ask(p, SALLOC_METRIC_COUNT, of_thread, &o->thread),
               SMALL / 2 + LARGE);
        sum += x.value;
        small += o->small_bytes;
    }
    CHECK(sum <= all.bytes * (1 + 1e-9));
    expect("bytes of a function", ask(p, SALLOC_METRIC_BYTES, of_function, NULL), small);
    x = ask(p, SALLOC_METRIC_RESIDENT, of_large, &large);
    expect("resident", x, owners[0].touched + owners[1].touched);
    CHECK(ask(p, SALLOC_METRIC_SWAPPED, of_large, &large).value == 0);
    y = ask(p, SALLOC_METRIC_ZERO, of_large, &large);
    CHECK(y.value == 0 && y.samples == x.samples); /* each has a 1 in it */

    /* Of the number of large blocks nothing is unknown but large blocks, if the library is told
     * so. */
    x = ask(p, SALLOC_METRIC_COUNT, of_large, &large);
    struct salloc_profile_query query = {.size = sizeof(query),
                                         .match = of_large,
                                         .arg = &large,
                                         .level = LEVEL,
                                         .smallest_block = large};
    CHECK(salloc_profile_estimate_matching(p, &query, &y) == 0);
    expect("large blocks", y, 2 * LARGE);
    CHECK_SAYS(y.low == x.low && y.high < x.high - 5000, "%g and %g", y.high, x.high);
    x = ask(p, SALLOC_METRIC_BYTES, of_none, NULL);
    CHECK_SAYS(x.samples == 0 && x.value == 0 && x.low == 0 && x.high > 32768 * 12,
               "none: up to %g", x.high);
    check_table(p, SALLOC_METRIC_RESIDENT, "\nresident %lf bytes (95 %% interval %lf to %lf)");
    check_table(p, SALLOC_METRIC_SWAPPED,
                "\nresident %*f bytes%*[^)]), swapped %lf bytes (%lf to %lf)");
    check_table(p, SALLOC_METRIC_LOCKED,
                "\nresident %*[^)])%*[^)]), locked %lf bytes (%lf to %lf)");
    check_table(p, SALLOC_METRIC_ZERO,
                "\nresident %*[^)])%*[^)])%*[^)]), zero %lf bytes (%lf to %lf)");
    salloc_profile_free(p);
}

static void check_waste(void)
{
    salloc_profile *p = salloc_snapshot_profile(SALLOC_PROFILE_FRAGMENTATION);
    struct sums rows = {0};
    struct salloc_interval x;

    REQUIRE(p && salloc_profile_iterate(p, add, &rows) == 0);
    x = ask(p, SALLOC_METRIC_FRAGMENTATION, NULL, NULL);
    CHECK(near(x.value, rows.waste) && x.high < 1e9);
    check_say("wasted: %.0f, %.0f to %.0f", x.value, x.low, x.high);
    x = ask(p, SALLOC_METRIC_FRAGMENTATION, of_none, NULL);
    CHECK(x.value == 0 && x.low == 0 && x.high > 0 && x.high < 1e9);
    check_table(p, SALLOC_METRIC_FRAGMENTATION, "\n%lf bytes wasted (95 %% interval %lf to %lf)");
    salloc_profile_free(p);
}

/* Blocks that live 1 ms and 3 ms, a hundred of each; all are in the sample. */
static void check_lifetimes(void)
{
    salloc_profile_token *token;
    salloc_profile *p;
    struct salloc_interval x;
    void *block[50];
    char mean[80];

    REQUIRE(salloc_set_sampling_interval(1) == 0);
    token = salloc_start_lifetime_profile();
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 50; i++)
            block[i] = allocate(300);
        usleep(round % 2 ? 1000 : 3000);
        for (int i = 0; i < 50; i++)
            free(block[i]);
    }
    REQUIRE((p = salloc_profile_token_stop(token)) != NULL);
    x = ask(p, SALLOC_METRIC_LIFETIME, of_size, NULL);
    CHECK_SAYS(x.samples == 200 && x.value >= 2e6 && x.low == x.value && x.high == x.value,
               "%lu samples, %g ns, %g to %g", (unsigned long)x.samples, x.value, x.low, x.high);
    CHECK(isinf(ask(p, SALLOC_METRIC_LIFETIME, of_none, NULL).high));
    x = ask(p, SALLOC_METRIC_LIFETIME, NULL, NULL);
    snprintf(mean, sizeof(mean),
             "\nmean life, of blocks still live until the stop: %.2f ms (95 %% interval ",
             x.value / 1e6);
    CHECK_SAYS(x.value >= 1e6 && strstr(table(p), mean), "no line \"%s\"", mean + 1);
    CHECK(salloc_profile_iterate_samples(p, of_none, NULL) == -1 && errno == EINVAL);
    salloc_profile_free(p);
}

static void refuses(const salloc_profile *p, struct salloc_profile_query query)
{
    struct salloc_interval x = {1, 2, 3, 4};

    errno = 0;
    CHECK(salloc_profile_estimate_matching(p, &query, &x) == -1 && errno == EINVAL);
    CHECK(x.samples == 1 && x.high == 4);
}

static void check_arguments(void)
{
    salloc_profile *p = salloc_snapshot_profile(SALLOC_PROFILE_HEAP);
    struct salloc_profile_query good = {.size = sizeof(good), .level = 0.95}, bad = good;
    struct {
        struct salloc_profile_query query;
        char more[16];
    } longer = {good, {0}};
    struct salloc_interval x;

    REQUIRE(p);
    CHECK(salloc_profile_estimate_matching(NULL, &good, &x) == -1 && errno == EINVAL);
    CHECK(salloc_profile_estimate_matching(p, NULL, &x) == -1 && errno == EINVAL);
    CHECK(salloc_profile_estimate_matching(p, &good, NULL) == -1 && errno == EINVAL);
    bad.size--;
    refuses(p, bad);
    for (int level = 0; level <= 1; level++) {
        bad = good;
        bad.level = level;
        refuses(p, bad);
    }
    bad = good;
    bad.metric = SALLOC_METRIC_FRAGMENTATION;
    refuses(p, bad);
    bad.metric = SALLOC_METRIC_LIFETIME;
    refuses(p, bad);
    bad.metric = (enum salloc_metric)8;
    refuses(p, bad);
    bad.metric = SALLOC_METRIC_RESIDENT;
    bad.estimator = SALLOC_ESTIMATE_OFFSET;
    refuses(p, bad);
    /* Of a later version, which asks for nothing new; and for something. */
    longer.query.size = sizeof(longer);
    CHECK(salloc_profile_estimate_matching(p, &longer.query, &x) == 0);
    longer.more[3] = 1;
    CHECK(salloc_profile_estimate_matching(p, &longer.query, &x) == -1 && errno == EINVAL);
    salloc_profile_free(p);
}

int main(void)
{
    int64_t from = now();

    check_begin();
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* or more would be resident than was touched */
    for (int i = 0; i < 2; i++) {
        pthread_t thread;

        REQUIRE(pthread_create(&thread, NULL, run, &owners[i]) == 0);
        pthread_join(thread, NULL);
    }
    check_singles(SALLOC_PROFILE_HEAP, from);
    check_singles(SALLOC_PROFILE_FRAGMENTATION, from);
    check_heap();
    check_waste();
    check_arguments();
    check_lifetimes();
    return check_end();
}
