/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The generator: SplitMix64's published output, no bit with a bias that a million draws would show,
 * and the same set of numbers when threads share it.
 */
#include "alloc/base/rng.h"

#include "test/support/cmocka.h"
#include "test/support/threads.h"

#include <stdlib.h>

/* The first numbers of the reference implementation (S. Vigna, splitmix64.c) for seed 0. */
static void test_rng_matches_reference_for_seed_0(void **state)
{
    static const uint64_t reference[] = {0xe220a8397b1dcdafull, 0x6e789e6aa1b965f4ull,
                                         0x06c45d188009454full, 0xf88bb8a8724c81ecull,
                                         0x1b39896a51a8749bull};
    uint64_t seed = 0;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(reference); i++)
        assert_true(sa_rng_next(&seed) == reference[i]);
}

/*
 * Each bit of n fair draws is set n / 2 times with standard deviation sqrt(n) / 2 = 512. 6
 * deviations are exceeded by one of 64 fair bits with probability 1.3e-7; the seed is fixed.
 */
static void test_rng_bits_are_fair(void **state)
{
    const int n = 1 << 20, deviation = 512;
    uint64_t seed = 20240601;
    int set[64] = {0};

    (void)state;
    for (int i = 0; i < n; i++) {
        uint64_t v = sa_rng_next(&seed);

        for (int bit = 0; bit < 64; bit++)
            set[bit] += (int)(v >> bit & 1);
    }
    for (int bit = 0; bit < 64; bit++)
        assert_true(abs(set[bit] - n / 2) <= 6 * deviation);
}

#define DRAWS   20000
#define THREADS 4

static uint64_t shared_seed, drawn[THREADS * DRAWS];

static void draw(int index, void *arg)
{
    (void)arg;
    for (int i = 0; i < DRAWS; i++)
        drawn[index * DRAWS + i] = sa_rng_next(&shared_seed);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void test_rng_gives_threads_the_same_numbers_as_one(void **state)
{
    static uint64_t alone[THREADS * DRAWS];
    uint64_t seed = 7;

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(alone); i++)
        alone[i] = sa_rng_next(&seed);
    shared_seed = 7;
    test_threads_run(THREADS, draw, NULL);
    qsort(alone, TEST_COUNT(alone), sizeof(alone[0]), compare);
    qsort(drawn, TEST_COUNT(drawn), sizeof(drawn[0]), compare);
    assert_memory_equal(alone, drawn, sizeof(alone));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng_matches_reference_for_seed_0),
        cmocka_unit_test(test_rng_bits_are_fair),
        cmocka_unit_test(test_rng_gives_threads_the_same_numbers_as_one),
    };

    return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
