/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of ranges: what is taken from a range, how old what is left and what merges is, and how
 * nodes are made ready when memory for them runs out. What happens in any sequence is compared with
 * an array by test/fuzz/fuzz_huge_address_map.c.
 */
#include "alloc/page_heap/huge/huge_address_map.h"

#include "alloc/os/vm.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"

static struct sa_huge_nodes nodes;

/* The start of a range is handed out, and what merges is as old as its parts on average. */
static void test_map_splits_from_the_start_and_remembers_time(void **state)
{
    struct sa_huge_map m = {0};

    (void)state;
    assert_true(sa_huge_nodes_ready(&nodes, 4));
    sa_huge_map_insert(&m, &nodes, 100, 10, 1000);
    assert_int_equal(sa_huge_map_take(&m, &nodes, 4, 1), 100);
    assert_int_equal(sa_huge_map_longest(&m)->start, 104);
    assert_int_equal(sa_huge_map_longest(&m)->since_ns, 1000);
    sa_huge_map_insert(&m, &nodes, 102, 2, 5000); /* 6 of 1000 and 2 of 5000 */
    assert_int_equal(sa_huge_map_longest(&m)->since_ns, 2000);
    sa_huge_map_insert(&m, &nodes, 90, 12, 2000);
    assert_int_equal(m.ranges, 1);
    assert_int_equal(sa_huge_map_longest(&m)->length, 20);
    assert_int_equal(sa_huge_map_longest(&m)->since_ns, 2000);
    assert_true(sa_huge_map_take_at(&m, &nodes, 90, 20));
}

static void run_out(void *unused)
{
    struct sa_huge_nodes some = {0};

    (void)unused;
    CHILD_CHECK(sa_huge_nodes_ready(&some, 3));
    test_faults.mmap_after = 0;
    CHILD_CHECK(!sa_huge_nodes_ready(&some, 1000000));
    CHILD_CHECK(some.unused_count >= 3 && some.unused_count == some.created);
    test_faults_clear();
    CHILD_CHECK(sa_huge_nodes_ready(&some, some.created + 10));
}

static void test_map_nodes_run_out(void **state)
{
    (void)state;
    test_child_passes(run_out, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_nodes_run_out),
        cmocka_unit_test(test_map_splits_from_the_start_and_remembers_time),
    };

    sa_vm_init();
    return cmocka_run_group_tests_name("huge_address_map", tests, NULL, NULL);
}
