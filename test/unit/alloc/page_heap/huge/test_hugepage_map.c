/* SPDX-License-Identifier: Apache-2.0 */
/* The table of hugepages against a plain list: entries in the home window and outside, found and
 * walked over. */
#include "alloc/page_heap/huge/hugepage_map.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"

#define ENTRIES 2000
#define HOME    (SA_HOME_START >> SA_HUGE_SHIFT)

/* Parts of the address space, in hugepages: at both ends of the home window, before and far behind
 * it. */
static const struct {
    size_t start, length;
} parts[] = {
    {17, 300},
    {HOME - 200, 1000},
    {HOME + SA_OWNERS - 500, 1000},
    {HOME + 5 * SA_OWNERS, 2},
};

#define END (HOME + 5 * SA_OWNERS + 2) /* of the last one */

static struct sa_hugepage_map owners;
static size_t set[ENTRIES], count; /* sorted */

static void add(size_t hugepage)
{
    size_t i = count;

    if (sa_hugepage_map_owner(&owners, hugepage))
        return;
    sa_hugepage_map_set(&owners, hugepage, hugepage * 16);
    for (count++; i > 0 && set[i - 1] > hugepage; i--)
        set[i] = set[i - 1];
    set[i] = hugepage;
}

static void test_owners_are_found(void **state)
{
    struct test_random r = {0x0a3e};
    size_t mapped = sa_vm_mapped_bytes(), reserved = sa_vm.reserved_bytes;

    (void)state;
    assert_int_equal(sa_hugepage_map_next(&owners, 0, END, SIZE_MAX), END); /* nothing is there */
    for (size_t i = 0; i < TEST_COUNT(parts); i++)
        assert_true(sa_hugepage_map_grow(&owners, parts[i].start, parts[i].length));
    assert_false(sa_hugepage_map_grow(&owners, SA_OWNERS * SA_OWNER_WINDOWS, 1));
    /* Tables of four windows besides the home window's, each used in one part or two: of 512
     * hugepages each. */
    assert_int_equal(sa_vm_mapped_bytes() - mapped, 4 * sizeof(owners.home));
    assert_int_equal(sa_vm.reserved_bytes - reserved, 4 * sizeof(owners.home) - 4 * 4096);
    for (int i = 0; i < ENTRIES; i++) {
        size_t part = test_random_below(&r, TEST_COUNT(parts));

        add(parts[part].start + test_random_below(&r, parts[part].length));
    }
    for (size_t i = 0; i < count; i++)
        assert_int_equal(sa_hugepage_map_owner(&owners, set[i]), set[i] * 16);
    assert_int_equal(sa_hugepage_map_owner(&owners, HOME + 3 * SA_OWNERS), 0);
}

/* All entries in their order, however few are looked at in one go. */
static void test_owners_are_walked_over(void **state)
{
    static const size_t looks[] = {0, 1, 64, SIZE_MAX};

    (void)state;
    for (size_t l = 0; l < TEST_COUNT(looks); l++) {
        size_t at = 0, seen = 0;

        while ((at = sa_hugepage_map_next(&owners, at, END, looks[l])) < END) {
            if (sa_hugepage_map_owner(&owners, at)) {
                assert_true(seen < count);
                assert_int_equal(at, set[seen++]);
            } else {
                assert_int_not_equal(looks[l], SIZE_MAX);
            }
            at++;
        }
        assert_int_equal(seen, count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owners_are_found),
        cmocka_unit_test(test_owners_are_walked_over),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("huge_owner", tests, NULL, NULL);
}
