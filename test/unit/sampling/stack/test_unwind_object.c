/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the loaded object of a code address. Those that are never unloaded are remembered: what
 * is said of them the second time, and of any address in them, is what the loader says, and
 * addresses beside them are not taken for theirs. Finding a description in an index.
 */
#include "sampling/stack/unwind_object.h"

#include "alloc/base/rng.h"
#include "sampling/stack/unwind.h"
#include "test/support/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SA_UNWIND_FAST

/* As the loader has it, with the identity that was found. */
static void check(uintptr_t address, uint64_t identity)
{
    struct sa_unwind_object o = {0};
    struct dl_find_object found;
    bool is = sa_unwind_object_find(address, &o);

    if (_dl_find_object((void *)address, &found) != 0) {
        assert_false(is);
        return;
    }
    assert_true(is);
    assert_ptr_equal((void *)o.start, found.dlfo_map_start);
    assert_ptr_equal((void *)o.end, found.dlfo_map_end);
    assert_ptr_equal(o.eh_index, found.dlfo_eh_frame);
    if (identity)
        assert_int_equal(o.identity, identity);
}

static void check_object(uintptr_t address)
{
    struct sa_unwind_object o;

    assert_true(sa_unwind_object_find(address, &o));
    for (int i = 0; i < 2; i++) {
        check(address, o.identity);
        check(o.start, o.identity);
        check(o.end - 1, o.identity);
        check(o.start - 1, 0);
        check(o.end, 0);
    }
}

static void test_unwind_object_remembers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        check_object((uintptr_t)sa_unwind_object_find);
        check_object((uintptr_t)test_unwind_object_remembers);
        check_object((uintptr_t)abort);
        check_object((uintptr_t)_dl_find_object); /* in the loader, which is not remembered */
    }
}

/* Addresses of no object. */
static void test_unwind_object_finds_nothing(void **state)
{
    struct sa_unwind_object o;
    int on_stack;

    (void)state;
    assert_false(sa_unwind_object_find(0, &o));
    assert_false(sa_unwind_object_find(UINTPTR_MAX, &o));
    assert_false(sa_unwind_object_find((uintptr_t)&on_stack, &o));
}

/* --- the index --- */

#define ENTRIES 5000

static struct {
    uint8_t head[4];
    int32_t frames;
    uint32_t count;
    struct {
        int32_t address, fde;
    } entry[ENTRIES];
} made;

/* Entries that begin `first` bytes from the index, with distances that change along it. */
static void make_index(uint32_t count, int32_t first, uint64_t *rng)
{
    uint32_t wide = 1 + (uint32_t)(sa_rng_next(rng) % 2000);
    int32_t address = first;

    memcpy(made.head, "\1\x1b\3\x3b", 4);
    made.count = count;
    for (uint32_t i = 0; i < count; i++) {
        made.entry[i].address = address;
        made.entry[i].fde = (int32_t)(8 * i);
        address += 1 + (int32_t)(sa_rng_next(rng) % (i % 512 < 256 ? wide : 16));
    }
}

/* One by one. */
static enum sa_unwind_found look(int64_t offset, const uint8_t **ret)
{
    enum sa_unwind_found found = SA_UNWIND_NONE;

    for (uint32_t i = 0; i < made.count && made.entry[i].address <= offset; i++) {
        *ret = (const uint8_t *)&made + made.entry[i].fde;
        found = SA_UNWIND_FDE;
    }
    return found;
}

/* What is found in an index is the last entry that is not above the address, whatever the entries
 * are like. */
static void test_unwind_object_searches_index(void **state)
{
    static const int32_t firsts[] = {-6000000, -1000, 8, 100000};
    uint64_t rng = sa_rng_mix(20);

    (void)state;
    for (int i = 0; i < 400; i++) {
        struct sa_unwind_object o = {.eh_index = (const uint8_t *)&made};
        uint32_t count = (uint32_t)(i < 100 ? (uint64_t)i : sa_rng_next(&rng) % (ENTRIES + 1));

        make_index(count, firsts[i % 4], &rng);
        o.end = (uintptr_t)&made + (i % 8 < 4 ? 7000000 : 1);
        for (int k = 0; k < 100; k++) {
            uint32_t at = count ? (uint32_t)(sa_rng_next(&rng) % count) : 0;
            int64_t offset = made.entry[k == 0 ? 0 : k == 1 && count ? count - 1 : at].address;
            const uint8_t *fde = NULL, *expected = NULL;

            offset += k == 2 ? 100000 : k % 3 - 1;
            assert_int_equal(sa_unwind_object_fde(&o, (uintptr_t)&made + (uintptr_t)offset, &fde),
                             look(offset, &expected));
            assert_ptr_equal(fde, expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwind_object_searches_index),
        cmocka_unit_test(test_unwind_object_remembers),
        cmocka_unit_test(test_unwind_object_finds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    puts("1..0 # SKIP no fast unwinder here");
    return 0;
}

#endif
