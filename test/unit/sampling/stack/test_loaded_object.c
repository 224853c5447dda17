/* SPDX-License-Identifier: Apache-2.0 */
/* The object of an address is what glibc's own search says, also in a build that does without. */
#include "sampling/stack/loaded_object.h"

#include "test/support/cmocka.h"

#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(uintptr_t address)
{
    struct sa_loaded_object o = {0};
    bool is = sa_loaded_object_find(address, &o);
#ifdef DLFO_STRUCT_HAS_EH_DBASE /* glibc 2.35 */
    struct dl_find_object found;

    assert_int_equal(is, _dl_find_object((void *)address, &found) == 0);
    if (!is)
        return;
    assert_int_equal(o.start, (uintptr_t)found.dlfo_map_start);
    assert_int_equal(o.end, (uintptr_t)found.dlfo_map_end);
    assert_ptr_equal(o.map, found.dlfo_link_map);
    assert_ptr_equal(o.eh_index, found.dlfo_eh_frame);
#else
    assert_true(!is || (address >= o.start && address < o.end && o.map));
#endif
}

static void test_loaded_object_is_what_glibc_says(void **state)
{
    const uintptr_t inside[] = {(uintptr_t)check, (uintptr_t)abort, (uintptr_t)&_r_debug,
                                (uintptr_t)&environ};
    struct sa_loaded_object o = {0};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(inside); i++) {
        assert_true(sa_loaded_object_find(inside[i], &o));
        assert_true(inside[i] >= o.start && inside[i] < o.end);
        check(inside[i]);
        check(o.start);
        check(o.end - 1);
        check(o.start - 1);
        check(o.end);
    }
}

static void test_loaded_object_finds_nothing(void **state)
{
    struct sa_loaded_object o = {0};
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_false(sa_loaded_object_find((uintptr_t)p, &o));
    assert_false(sa_loaded_object_find((uintptr_t)&o, &o));
    assert_false(sa_loaded_object_find(0, &o));
    assert_false(sa_loaded_object_find(UINTPTR_MAX, &o));
    munmap(p, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loaded_object_is_what_glibc_says),
        cmocka_unit_test(test_loaded_object_finds_nothing),
    };

    return cmocka_run_group_tests_name("loaded_object", tests, NULL, NULL);
}
