/* SPDX-License-Identifier: Apache-2.0 */
/* Marks of objects: what they tell, and that what is written over them, or beside blocks, shows. */
#include "alloc/base/canary.h"

#include "alloc/base/hardening.h"
#include "alloc/base/origin.h"
#include "test/support/cmocka.h"

#include <string.h>

#define BYTES 1024 /* of the largest object here */

static _Alignas(16) unsigned char object[BYTES];

static enum sa_canary mark(size_t bytes, size_t *ret_size)
{
    *ret_size = SIZE_MAX;
    return sa_canary_read(object, bytes, ret_size);
}

/* An object is what it was made last, and a block has the size it was made with, whatever that
 * is. */
static void test_canaries_tell_what_an_object_is(void **state)
{
    size_t size;

    (void)state;
    for (size_t bytes = 16; bytes <= BYTES; bytes += 16) {
        sa_canary_fresh(object, bytes);
        assert_int_equal(mark(bytes, &size), SA_CANARY_FRESH);
        for (size_t n = 0; n <= bytes - SA_CANARY_BYTES; n++) {
            sa_canary_use(object, bytes, n, 0);
            assert_int_equal(mark(bytes, &size), SA_CANARY_USED);
            assert_int_equal(size, n);
            assert_null(sa_slack_damage(object + n, bytes - SA_CANARY_BYTES - n));
        }
        assert_int_equal(sa_canary_free(object, bytes), SA_CANARY_USED);
        assert_int_equal(mark(bytes, &size), SA_CANARY_FREE);
        assert_int_equal(sa_canary_free(object, bytes), SA_CANARY_FREE);
    }
}

/* A mark tells the origin, which changes neither size nor kind, and is not what another origin's
 * mark would be. */
static void test_canaries_tell_the_origin(void **state)
{
    size_t size;

    (void)state;
    for (unsigned family = 0; family < 3; family++)
        for (unsigned align_log = 0; align_log < 16; align_log++) {
            unsigned origin = family << SA_ORIGIN_FAMILY | align_log;

            sa_canary_use(object, BYTES, 700, origin);
            assert_int_equal(sa_canary_origin(object, BYTES), origin);
            assert_int_equal(mark(BYTES, &size), SA_CANARY_USED);
            assert_int_equal(size, 700);
        }
}

/* The first byte behind a block is never zero, so that one zero too many is seen for every size. */
static void test_canaries_see_one_zero_behind_the_block(void **state)
{
    size_t size;

    (void)state;
    for (size_t bytes = 16; bytes <= BYTES; bytes += 16)
        for (size_t n = 0; n <= bytes - SA_CANARY_BYTES; n++) {
            sa_canary_use(object, bytes, n, 0);
            object[n] = 0;
            if (n == bytes - SA_CANARY_BYTES)
                assert_int_equal(mark(bytes, &size), SA_CANARY_BROKEN);
            else
                assert_ptr_equal(sa_slack_damage(object + n, bytes - SA_CANARY_BYTES - n),
                                 object + n);
        }
}

/* Every single bit of a mark counts, of each kind. */
static void test_canaries_break_with_any_bit(void **state)
{
    unsigned char *at = object + BYTES - SA_CANARY_BYTES;
    size_t size;

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 2)
            sa_canary_fresh(object, BYTES);
        else
            sa_canary_use(object, BYTES, 700, 0);
        if (kind == 1)
            sa_canary_free(object, BYTES);
        for (unsigned bit = 0; bit < 64; bit++) {
            at[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_int_equal(mark(BYTES, &size), SA_CANARY_BROKEN);
            at[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        assert_int_not_equal(mark(BYTES, &size), SA_CANARY_BROKEN);
    }
}

/* A mark that was copied is good in its own place only, and in a process with other keys
 * nowhere. */
static void test_canaries_depend_on_place_and_keys(void **state)
{
    static const uint64_t other[4] = {11, 12, 13, 14};
    struct sa_hardening before = sa_hardening;
    size_t size;

    (void)state;
    sa_canary_use(object, 512, 100, 0);
    memcpy(object + 512, object, 512);
    assert_int_equal(sa_canary_read(object + 512, 512, &size), SA_CANARY_BROKEN);
    sa_hardening_init(&before, other);
    assert_int_equal(mark(512, &size), SA_CANARY_BROKEN);
    sa_hardening = before;
    assert_int_equal(mark(512, &size), SA_CANARY_USED);
}

/* Of junk, the first byte that differs is found, wherever it is. */
static void test_canaries_junk_shows_every_write(void **state)
{
    (void)state;
    sa_junk_fill(object, BYTES);
    assert_null(sa_junk_damage(object, BYTES));
    for (size_t at = 0; at < BYTES; at++) {
        object[at] ^= 0x10;
        object[BYTES - 1] ^= at + 1 < BYTES ? 0x10 : 0;
        assert_ptr_equal(sa_junk_damage(object, BYTES), object + at);
        sa_junk_fill(object, BYTES);
    }
}

int main(void)
{
    static const struct sa_hardening wanted = {.canaries = true};
    static const uint64_t secret[4] = {1, 2, 3, 4};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canaries_tell_what_an_object_is),
        cmocka_unit_test(test_canaries_tell_the_origin),
        cmocka_unit_test(test_canaries_see_one_zero_behind_the_block),
        cmocka_unit_test(test_canaries_break_with_any_bit),
        cmocka_unit_test(test_canaries_depend_on_place_and_keys),
        cmocka_unit_test(test_canaries_junk_shows_every_write),
    };

    sa_hardening_init(&wanted, secret);
    return cmocka_run_group_tests_name("marks", tests, NULL, NULL);
}
