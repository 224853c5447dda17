/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing: all of the bytes asked for and none beside them, at any address and around each size
 * where the way changes. */
#include "alloc/base/clear.h"

#include "alloc/base/attrs.h"
#include "test/support/cmocka.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST 140000u
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

    memset(block, 0xa5, sizeof(block));
    assert_ptr_equal(sa_clear_warm(p, bytes), p);
    assert_all(p - SIDE, SIDE, 0xa5);
    assert_all(p, bytes, 0);
    assert_all(p + bytes, SIDE, 0xa5);
}

static void test_clear_clears_what_it_should(void **state)
{
    static const size_t around[] = {129, 2048, 2176, 4096, 32768, 65536, MOST - 64};
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clear_clears_what_it_should),
    };

    return cmocka_run_group_tests_name("clear", tests, NULL, NULL);
}
