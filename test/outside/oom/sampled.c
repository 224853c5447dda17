/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every block is sampled while address space runs out: samples have pages elsewhere, out of the
 * same limit. Proves that no block is lost, and that what samples have left when they are freed can
 * be had again for large blocks, which have no pages but their own.
 *
 * usage: sampled MIB
 */
#include "test/outside/oom/oom.h"

/* As in limits.c. */
#if SA_HARDENED /* blocks of 1 MiB with an inaccessible page do not go in pairs into hugepages */
#define FRACTION_AT_FIRST 0.33
#else
#define FRACTION_AT_FIRST 0.5
#endif

static const struct {
    size_t small, large;
} sizes[] = {{100, 5 << 20}, {48, 300000}, {8192, 1 << 20}, {200000, 5 << 20}};

int main(int argc, char **argv)
{
    size_t limit = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, n;

    REQUIRE(limit);
    setenv("SALLOC_CONF", "sample_interval:1", 1);
    oom_limit(RLIMIT_AS, limit, argv);
    check_begin();
    oom_listen(argv);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        oom_empty(oom_fill(sizes[i].small, &n), sizes[i].small);
        oom_empty(oom_fill(sizes[i].large, &n), sizes[i].large);
        CHECK_SAYS((double)(n * sizes[i].large) >= FRACTION_AT_FIRST * (double)(limit << 20),
                   "after blocks of %zu only %.1f MiB in blocks of %zu", sizes[i].small,
                   (double)(n * sizes[i].large) / 1048576, sizes[i].large);
    }
    oom_silent();
    return check_end();
}
