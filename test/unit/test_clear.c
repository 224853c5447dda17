/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing: all of the bytes asked for and none beside them, at any address and around each size where the way changes; and
 * that blocks about as long as a cache are gone through forwards and backwards in turn. */
#include "alloc/base/clear.h"

#include "alloc/base/attrs.h"
#include "test/support/cmocka.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

long __wrap_sysconf(int name);
void *__real_memset(void *p, int value, size_t bytes);
void *__wrap_memset(void *p, int value, size_t bytes);

/* A second-level cache so small that blocks here are about as long; the longest are longer. */
#define CACHE 110000

static unsigned asked;

long __wrap_sysconf(int name)
{
    assert_int_equal(name, _SC_LEVEL2_CACHE_SIZE);
    asked++;
    return CACHE;
}

#define MOST 140000u

static struct {
    size_t calls;
    void *at;
    bool descending; /* each call ends where the one before it began */
} cleared;

void *__wrap_memset(void *p, int value, size_t bytes)
{
    cleared.descending &= cleared.calls++ == 0 || (char *)p + bytes == (char *)cleared.at;
    cleared.at = p;
    return __real_memset(p, value, bytes);
}
#define SIDE 256u /* looked at before and behind */

static unsigned char block[SIDE + 64 + MOST + SIDE] __attribute__((aligned(64)));

static void assert_all(const unsigned char *from, size_t n, unsigned char value)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(from[i], value);
}

static void clear_at(size_t offset, size_t bytes)
{
    unsigned char *p = block + SIDE + offset;

    for (int way = 0; way < 3; way++) { /* sa_clear goes forwards and backwards in turn */
        memset(block, 0xa5, sizeof(block));
        if (way)
            sa_clear(p, bytes);
        else
            assert_ptr_equal(sa_clear_warm(p, bytes), p);
        assert_all(p - SIDE, SIDE, 0xa5);
        assert_all(p, bytes, 0);
        assert_all(p + bytes, SIDE, 0xa5);
    }
}

static void test_clear_clears_what_it_should(void **state)
{
    static const size_t around[] = {129, 2048, 2176, 4096, 65536, SA_CLEAR_LONG, MOST - 64};
    static const size_t offsets[] = {0, 16, 63};

    (void)state;
    for (size_t o = 0; o < TEST_COUNT(offsets); o++) {
        clear_at(offsets[o], 0);
        clear_at(offsets[o], 1);
        for (size_t i = 0; i < TEST_COUNT(around); i++)
            for (size_t bytes = around[i] - 2; bytes <= around[i] + 2; bytes++)
                clear_at(offsets[o], bytes);
    }
    assert_int_equal(asked, 1);
}

/* How many pieces a block is cleared in, from the last to the first. */
static size_t pieces(size_t bytes)
{
    cleared.calls = 0;
    cleared.descending = true;
    sa_clear(block, bytes);
    assert_ptr_equal(cleared.at, block); /* the beginning last, so that it is found in the cache */
    assert_true(cleared.descending);
    return cleared.calls;
}

static void test_clear_turns_round_in_blocks_like_the_cache(void **state)
{
    size_t first;

    (void)state;
    if (SA_ASAN || SA_TSAN)
        return; /* whose memset may be another one; the plain build looks */
    first = pieces(CACHE + CACHE / 4);
    assert_true(first == 1 || first == 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pieces(CACHE + CACHE / 4), 5 - first);
        assert_int_equal(pieces(CACHE + CACHE / 4), first);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pieces(CACHE + CACHE / 4 + 1), 1);
        assert_int_equal(pieces(SA_CLEAR_LONG), 1);
    }
    assert_int_equal(pieces(SA_CLEAR_LONG + 1), 5 - first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear_turns_round_in_blocks_like_the_cache),
        cmocka_unit_test(test_clear_clears_what_it_should),
    };

    return cmocka_run_group_tests_name("clear", tests, NULL, NULL);
}
