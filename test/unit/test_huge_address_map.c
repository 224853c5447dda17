/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of ranges against an array with one entry for each hugepage: what it finds, that neighbours are
 * merged, that the tree is ordered and its nodes know the longest range below them; and how nodes are
 * made ready when memory for them runs out.
 */
#include "alloc/page_heap/huge_address_map.h"

#include "alloc/os/vm.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"

#include <string.h>

#define HUGEPAGES 1024
#define BASE      5000000u

static struct sa_huge_nodes nodes;
static struct sa_huge_map map;
static bool model[HUGEPAGES]; /* in the tree */

static void model_set(size_t start, size_t n, bool in)
{
    for (size_t i = start; i < start + n; i++) {
        assert_int_equal(model[i], !in);
        model[i] = in;
    }
}

static size_t run_end(size_t at)
{
    size_t end = at;

    while (end < HUGEPAGES && model[end] == model[at])
        end++;
    return end;
}

static size_t check_node(const struct sa_huge_node *node, size_t low, size_t high)
{
    size_t left, right, longest;

    if (!node)
        return 0;
    assert_true(node->start >= low && node->start + node->length <= high);
    if (node->left)
        assert_true(node->left->priority <= node->priority);
    if (node->right)
        assert_true(node->right->priority <= node->priority);
    left = check_node(node->left, low, node->start);
    right = check_node(node->right, node->start + node->length, high);
    longest = node->length;
    longest = left > longest ? left : longest;
    longest = right > longest ? right : longest;
    assert_int_equal(node->longest, longest);
    return longest;
}

static void check(void)
{
    size_t hugepages = 0, ranges = 0, longest = 0;

    for (size_t at = 0, end; at < HUGEPAGES; at = end) {
        const struct sa_huge_node *node = sa_huge_map_find(&map, BASE + at);

        end = run_end(at);
        if (!model[at]) {
            assert_null(node);
            continue;
        }
        assert_non_null(node);
        assert_int_equal(node->start, BASE + at);
        assert_int_equal(node->length, end - at);
        assert_ptr_equal(sa_huge_map_find(&map, BASE + end - 1), node);
        assert_ptr_equal(sa_huge_map_from(&map, BASE + at), node);
        hugepages += end - at;
        ranges++;
        longest = end - at > longest ? end - at : longest;
    }
    assert_int_equal(map.hugepages, hugepages);
    assert_int_equal(map.ranges, ranges);
    assert_int_equal(nodes.created - nodes.unused_count, ranges);
    assert_int_equal(check_node(map.root, 0, SIZE_MAX), longest);
    assert_int_equal(sa_huge_map_longest(&map) ? sa_huge_map_longest(&map)->length : 0, longest);
}

static void random_step(struct test_random *r)
{
    size_t at = test_random_below(r, HUGEPAGES), end = run_end(at), n, align, got;

    assert_true(sa_huge_nodes_ready(&nodes, 2));
    switch (test_random_below(r, 4)) {
    case 0: /* insert something that is not there */
    case 1:
        if (model[at])
            break;
        n = 1 + test_random_below(r, end - at);
        sa_huge_map_insert(&map, &nodes, BASE + at, n, at);
        model_set(at, n, true);
        break;
    case 2:
        n = test_random_size(r, 5);
        align = (size_t)1 << (test_random_below(r, 3) ? 0 : test_random_below(r, 5));
        got = sa_huge_map_take(&map, &nodes, n, align);
        if (got != SA_HUGE_NONE) {
            assert_int_equal(got % align, 0);
            model_set(got - BASE, n, false);
        } else { /* no range is long enough for any start */
            for (size_t i = 0; i < HUGEPAGES; i = run_end(i))
                assert_false(model[i] && run_end(i) - i >= n + align - 1);
        }
        break;
    default:
        n = 1 + test_random_below(r, 12);
        if (sa_huge_map_take_at(&map, &nodes, BASE + at, n)) {
            assert_true(model[at] && end - at >= n);
            model_set(at, n, false);
        } else {
            assert_false(model[at] && end - at >= n);
        }
    }
}

static void test_map_agrees_with_an_array(void **state)
{
    struct test_random r = {0x3a9};

    (void)state;
    for (int step = 0; step < 30000; step++) {
        random_step(&r);
        if (step % 4 == 0)
            check();
    }
    for (size_t at = 0; at < HUGEPAGES; at = run_end(at))
        if (model[at]) {
            assert_true(sa_huge_map_take_at(&map, &nodes, BASE + at, run_end(at) - at));
            model_set(at, run_end(at) - at, false);
        }
    check();
    assert_null(sa_huge_map_longest(&map));
    assert_null(sa_huge_map_shortest(&map));
}

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
        cmocka_unit_test(test_map_agrees_with_an_array),
    };

    sa_vm_init();
    return cmocka_run_group_tests_name("huge_address_map", tests, NULL, NULL);
}
