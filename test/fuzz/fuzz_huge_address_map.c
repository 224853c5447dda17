/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of ranges against an array with an entry for each hugepage, that says in which range's
 * time it was put in: what is found, that neighbours merge, order, heap order and longest ranges of
 * the nodes, the number of nodes, and that the age of a range lies between those of its parts.
 */
#include "alloc/page_heap/huge/huge_address_map.h"

#include "alloc/os/vm.h"
#include "test/fuzz/fuzz.h"

#define HUGEPAGES 256
#define BASE      5000000u

static struct sa_huge_nodes nodes;
static struct sa_huge_map map;
static bool model[HUGEPAGES];
static uint64_t oldest, youngest;

static void set(size_t start, size_t n, bool in)
{
    FUZZ_CHECK(start + n <= HUGEPAGES);
    for (size_t i = start; i < start + n; i++) {
        FUZZ_CHECK(model[i] == !in);
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

static size_t max3(size_t a, size_t b, size_t c)
{
    return a > b ? (a > c ? a : c) : b > c ? b : c;
}

static size_t check_node(const struct sa_huge_node *node, size_t low, size_t high)
{
    size_t left, right;

    if (!node)
        return 0;
    FUZZ_CHECK(node->start >= low && node->start + node->length <= high);
    FUZZ_CHECK(!node->left || node->left->priority <= node->priority);
    FUZZ_CHECK(!node->right || node->right->priority <= node->priority);
    FUZZ_CHECK(node->since_ns >= oldest && node->since_ns <= youngest);
    left = check_node(node->left, low, node->start);
    right = check_node(node->right, node->start + node->length, high);
    FUZZ_EQUAL(node->longest, max3(node->length, left, right));
    return node->longest;
}

static void check(void)
{
    size_t hugepages = 0, ranges = 0, longest = 0;

    for (size_t at = 0, end; at < HUGEPAGES; at = end) {
        const struct sa_huge_node *node = sa_huge_map_find(&map, BASE + at);

        end = run_end(at);
        FUZZ_CHECK((node != NULL) == model[at]);
        if (!node)
            continue;
        FUZZ_EQUAL(node->start, BASE + at);
        FUZZ_EQUAL(node->length, end - at);
        FUZZ_CHECK(sa_huge_map_find(&map, BASE + end - 1) == node);
        FUZZ_CHECK(sa_huge_map_from(&map, BASE + at) == node);
        hugepages += end - at;
        ranges++;
        longest = end - at > longest ? end - at : longest;
    }
    FUZZ_EQUAL(map.hugepages, hugepages);
    FUZZ_EQUAL(map.ranges, ranges);
    FUZZ_EQUAL(nodes.created - nodes.unused_count, ranges);
    FUZZ_EQUAL(check_node(map.root, 0, SIZE_MAX), longest);
    FUZZ_EQUAL(sa_huge_map_longest(&map) ? sa_huge_map_longest(&map)->length : 0, longest);
    FUZZ_CHECK((sa_huge_map_shortest(&map) != NULL) == (ranges > 0));
}

static void insert(struct fuzz_input *in)
{
    size_t at = fuzz_below(in, HUGEPAGES), n;
    uint64_t since = fuzz_number(in, fuzz_byte(in) % 9);

    if (model[at])
        return;
    n = 1 + fuzz_below(in, run_end(at) - at);
    oldest = since < oldest ? since : oldest;
    youngest = since > youngest ? since : youngest;
    sa_huge_map_insert(&map, &nodes, BASE + at, n, since);
    set(at, n, true);
}

static void take(struct fuzz_input *in)
{
    size_t n = fuzz_size(in, 7), align = (size_t)1 << fuzz_below(in, 6);
    size_t got = sa_huge_map_take(&map, &nodes, n, align);

    if (got != SA_HUGE_NONE) {
        FUZZ_EQUAL(got % align, 0);
        set(got - BASE, n, false);
        return;
    }
    for (size_t i = 0; i < HUGEPAGES; i = run_end(i))
        FUZZ_CHECK(!model[i] || run_end(i) - i < n + align - 1);
}

static void take_at(struct fuzz_input *in)
{
    size_t at = fuzz_below(in, HUGEPAGES), n = 1 + fuzz_below(in, HUGEPAGES);
    bool there = model[at] && run_end(at) - at >= n;

    FUZZ_CHECK(sa_huge_map_take_at(&map, &nodes, BASE + at, n) == there);
    if (there)
        set(at, n, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    if (!sa_vm.page_bytes)
        sa_vm_init();
    oldest = UINT64_MAX;
    youngest = 0;
    nodes.random = fuzz_byte(&in);
    while (fuzz_left(&in)) {
        FUZZ_CHECK(sa_huge_nodes_ready(&nodes, 2));
        switch (fuzz_byte(&in) % 4) {
        case 0:
        case 1:
            insert(&in);
            break;
        case 2:
            take(&in);
            break;
        default:
            take_at(&in);
        }
        check();
    }
    for (size_t at = 0, end; at < HUGEPAGES; at = end) {
        end = run_end(at);
        if (model[at]) {
            FUZZ_CHECK(sa_huge_map_take_at(&map, &nodes, BASE + at, end - at));
            set(at, end - at, false);
        }
    }
    check();
    return 0;
}
