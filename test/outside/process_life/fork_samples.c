/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Children of fork draw samples of their own. Each child allocates the same blocks, of which each
 * has a size of its own, and notes which ones its heap profile names. Proves that no two children
 * take the same samples, that what two children have in common is what chance gives them, that each
 * child samples as often as the interval says, and that an option's seed does not make children
 * alike. Some children are children's children. Blocks above 256 KiB have another generator than
 * small ones and are compared by themselves. Then, where samples are guarded, children guard
 * different blocks: each notes the first one, which tells its requested size as its usable size.
 *
 * How many are different: a block of s bytes is sampled with p = s/65536, and the first guarded
 * sample of a child is its first, second or third. So two children guard the same block with a
 * chance of 1/283. Of 200 children 12.5 have one of a multiple of 16 bytes, which cannot be told
 * from others, and the rest guard 133.6 different ones, with a standard deviation of 5.1 (summed
 * over all blocks). The bound is 5 deviations lower.
 *
 * By chance it fails less than once in 10,000 runs: where the seed does not fix the outcome the
 * three sums are bounded at 5 standard deviations, and two sets of small blocks are equal with a
 * probability below 1e-30, two of long ones below 1e-9.
 */
#include "include/salloc/profile.h"
#include "include/salloc/salloc.h"
#include "test/outside/check.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { GUARDING = 200, DIFFERENT = 108 };
enum { CHILDREN = 32, SMALL = 4000, LONG = 60, BLOCKS = SMALL + LONG };

#define INTERVAL 65536
#define LONG_AT                                                                                    \
    (2 << 20) /* the shortest of the long ones; at this interval all of them would be certain */
#define LONG_T (1 << 22) /* so they have another */
#define BASE   1000      /* the shortest of the small ones */

struct child {
    unsigned char sampled[BLOCKS];
};

static struct child *children; /* shared memory */
static int (*set_interval)(int64_t);
static salloc_profile *(*snapshot)(enum salloc_profile_type);
static int (*iterate)(const salloc_profile *, int (*)(const struct salloc_profile_sample *, void *),
                      void *);
static void (*profile_free)(salloc_profile *);

static size_t block_size(int i)
{
    return i < SMALL ? BASE + (size_t)i : LONG_AT + 65536 * (size_t)(i - SMALL);
}

static int note(const struct salloc_profile_sample *s, void *arg)
{
    struct child *c = arg;
    size_t i = s->requested_size - BASE;

    if (s->requested_size >= LONG_AT)
        i = SMALL + (s->requested_size - LONG_AT) / 65536;
    if (s->inuse_count > 0 && i < BLOCKS && s->requested_size == block_size((int)i))
        c->sampled[i] = 1;
    return 0;
}

static void allocate(struct child *c)
{
    static void *block[BLOCKS];
    salloc_profile *p;

    for (int i = 0; i < BLOCKS; i++) {
        if (i == SMALL)
            REQUIRE(set_interval(LONG_T) == 0);
        REQUIRE((block[i] = malloc(block_size(i))) != NULL);
    }
    p = snapshot(SALLOC_PROFILE_HEAP);
    REQUIRE(p && iterate(p, note, c) == 0);
    profile_free(p);
}

/* One child in four leaves its work to a child of its own. */
static void run_child(int index)
{
    int status;
    pid_t pid;

    if (index % 4 == 3) {
        pid = fork();
        REQUIRE(pid >= 0);
        if (pid > 0) {
            REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
            _exit(0);
        }
    }
    allocate(&children[index]);
    _exit(check_end());
}

static double chance(int i)
{
    double size = (double)malloc_usable_size(malloc(block_size(i)));
    double p = -expm1(size * log1p(-1.0 / (i < SMALL ? INTERVAL : LONG_T)));

    return p;
}

struct sum {
    double is, expected, variance;
};

static void expect(const char *what, const struct sum *s)
{
    double off = (s->is - s->expected) / sqrt(s->variance);

    check_say("%s: %.0f, expected %.1f (%+.1f deviations)", what, s->is, s->expected, off);
    CHECK(fabs(off) <= 5);
}

/* Compares the blocks from first to end. Pairs have a child in common, but are uncorrelated where
 * all are independent. */
static void compare(const char *what, int first, int end)
{
    struct sum taken = {0}, common = {0};
    int equal = 0;

    for (int i = first; i < end; i++) {
        double p = chance(i), pairs = CHILDREN * (CHILDREN - 1) / 2.0;

        taken.expected += CHILDREN * p;
        taken.variance += CHILDREN * p * (1 - p);
        common.expected += pairs * p * p;
        /* Of the pairs among a binomial number of children. */
        common.variance += pairs * p * p * (1 - p) * (1 + p + 2 * (CHILDREN - 2) * p);
    }
    for (int a = 0; a < CHILDREN; a++) {
        for (int i = first; i < end; i++)
            taken.is += children[a].sampled[i];
        for (int b = 0; b < a; b++) {
            equal += memcmp(children[a].sampled + first, children[b].sampled + first,
                            (size_t)(end - first)) == 0;
            for (int i = first; i < end; i++)
                common.is += children[a].sampled[i] & children[b].sampled[i];
        }
    }
    check_say("%s: %d pairs of children took the same samples", what, equal);
    CHECK(equal == 0);
    expect("samples of all children", &taken);
    expect("of every two, in common", &common);
}

/* The number of the first guarded block. */
static int first_guarded(void)
{
    for (int i = 0; i < SMALL; i++) {
        void *p = malloc(block_size(i));

        if (malloc_usable_size(p) == block_size(i) && block_size(i) % 16)
            return i;
    }
    return -1;
}

static void check_guarded(void)
{
    bool seen[SMALL] = {false};
    int *first = (int *)children, different = 0, none = 0, status;

    /* No sample is guarded in the first quarter of a second. */
    free(malloc(1 << 26));
    usleep(300000);
    for (int i = 0; i < GUARDING; i++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0) {
            first[i] = first_guarded();
            _exit(0);
        }
        REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    for (int i = 0; i < GUARDING; i++) {
        none += first[i] < 0;
        if (first[i] >= 0 && !seen[first[i]]) {
            seen[first[i]] = true;
            different++;
        }
    }
    check_say("%d children guard %d different blocks, %d none", GUARDING, different, none);
    CHECK(different >= DIFFERENT);
}

int main(int argc, char **argv)
{
    int status;

    (void)argv;
    check_begin();
    set_interval = (int (*)(int64_t))dlsym(RTLD_DEFAULT, "salloc_set_sampling_interval");
    snapshot = (salloc_profile * (*)(enum salloc_profile_type))
        dlsym(RTLD_DEFAULT, "salloc_snapshot_profile");
    iterate =
        (int (*)(const salloc_profile *, int (*)(const struct salloc_profile_sample *, void *),
                 void *))dlsym(RTLD_DEFAULT, "salloc_profile_iterate");
    profile_free = (void (*)(salloc_profile *))dlsym(RTLD_DEFAULT, "salloc_profile_free");
    REQUIRE(set_interval && snapshot && iterate && profile_free);
    children = mmap(NULL, CHILDREN * sizeof(*children), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(children != MAP_FAILED && set_interval(INTERVAL) == 0);
    for (int i = 0; i < SMALL; i++) /* countdowns run */
        free(malloc(block_size(i)));
    if (argc > 1) { /* any argument: samples are guarded */
        check_guarded();
        return check_end();
    }
    for (int i = 0; i < CHILDREN; i++) {
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0)
            run_child(i);
        REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    compare("small blocks", 0, SMALL);
    compare("long blocks", SMALL, BLOCKS);
    return check_end();
}
