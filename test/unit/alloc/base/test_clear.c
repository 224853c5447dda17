/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing: all of the bytes asked for and none beside them, at any address and around each size
 * where the way changes; and that blocks about as long as a cache are gone through forwards and
 * backwards in turn. */
#include "alloc/base/clear.h"

#include "alloc/base/attrs.h"
#include "test/support/cmocka.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void *__real_memset(void *p, int value, size_t bytes);
void *__wrap_memset(void *p, int value, size_t bytes);

/* As in clear_long.c: blocks that are longer are cleared in one go. */
#define PART    (16u << 10)
#define LONGEST (8u << 20)

#define MOST 140000u

static struct {
    size_t calls, max; /* bytes */
    void *at;
    bool descending; /* each call ends where the one before it began */
} cleared;

void *__wrap_memset(void *p, int value, size_t bytes)
{
    cleared.descending &= cleared.calls++ == 0 || (char *)p + bytes == (char *)cleared.at;
    cleared.at = p;
    cleared.max = bytes > cleared.max ? bytes : cleared.max;
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

    /* Twice each, as long blocks are cleared forwards and backwards in turn. */
    for (int way = 0; way < 4; way++) {
        memset(block, 0xa5, sizeof(block));
        if (way >= 2)
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
    static const size_t around[] = {129,           2048,     2176,  4096,
                                    SA_CLEAR_LONG, 3 * PART, 65536, MOST - 64};
    static const size_t offsets[] = {0, 16, 63};

    (void)state;
    for (size_t o = 0; o < TEST_COUNT(offsets); o++) {
        clear_at(offsets[o], 0);
        clear_at(offsets[o], 1);
        for (size_t i = 0; i < TEST_COUNT(around); i++)
            for (size_t bytes = around[i] - 2; bytes <= around[i] + 2; bytes++)
                clear_at(offsets[o], bytes);
    }
}

/* How many pieces a block is cleared in, from the last to the first. */
static size_t pieces(unsigned char *p, size_t bytes)
{
    cleared.calls = 0;
    cleared.max = 0;
    cleared.descending = true;
    sa_clear(p, bytes);
    assert_ptr_equal(cleared.at, p); /* the beginning last, so that it is found in the cache */
    assert_true(cleared.descending);
    assert_true(cleared.calls == 1 || cleared.max < 2 * PART);
    return cleared.calls;
}

static void test_clear_turns_round_in_blocks_like_a_cache(void **state)
{
    static const size_t lengths[] = {SA_CLEAR_LONG, 5 * PART / 2, 65536, LONGEST};
    unsigned char *p = calloc(1, LONGEST + 1);

    (void)state;
    assert_non_null(p);
    if (SA_ASAN || SA_TSAN) {
        free(p);
        return; /* whose memset may be another one; the plain build looks */
    }
    if (pieces(p, SA_CLEAR_LONG) == 1)
        pieces(p, SA_CLEAR_LONG); /* now the next is forwards */
    for (size_t i = 0; i < TEST_COUNT(lengths); i++) {
        assert_int_equal(pieces(p, lengths[i]), 1);
        assert_int_equal(pieces(p, lengths[i]), lengths[i] / PART);
        /* These do not count as turns. */
        assert_int_equal(pieces(p, SA_CLEAR_LONG - 1), 1);
        assert_int_equal(pieces(p, LONGEST + 1), 1);
    }
    free(p);
}

/* By block: of two that are cleared by turns, as by two threads, neither always goes the same
 * way. */
static void test_clear_turns_for_each_block(void **state)
{
    unsigned char *p = calloc(2, 65536);
    size_t first;

    (void)state;
    assert_non_null(p);
    first = pieces(p, 65536);
    for (int i = 0; i < 4 && !SA_ASAN && !SA_TSAN; i++) {
        size_t now = first;

        pieces(p + 65536, 65536);
        first = pieces(p, 65536);
        assert_true(first != now);
    }
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear_turns_round_in_blocks_like_a_cache),
        cmocka_unit_test(test_clear_turns_for_each_block),
        cmocka_unit_test(test_clear_clears_what_it_should),
    };

    return cmocka_run_group_tests_name("clear", tests, NULL, NULL);
}
