/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the treap of ranges: the order of the ranges, the gaps between them, the order of the
 * priorities, `longest` of each node, and the sums of the map. Debug builds run it at ticks.
 */
#include "alloc/page_heap/huge/huge_address_map.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

struct walk {
    size_t end; /* of the range before */
    size_t hugepages, ranges;
};

static void node_validate(const struct sa_huge_node *node, uint64_t max, struct walk *walk)
{
    size_t longest = node->length;

    SA_CHECK(node->length > 0);
    SA_CHECK(node->priority <= max);
    if (node->left) {
        node_validate(node->left, node->priority, walk);
        longest = sa_max(longest, node->left->longest);
    }
    /* Ranges that touch are one. */
    SA_CHECK(walk->ranges == 0 || node->start > walk->end);
    walk->end = node->start + node->length;
    walk->hugepages += node->length;
    walk->ranges++;
    if (node->right) {
        node_validate(node->right, node->priority, walk);
        longest = sa_max(longest, node->right->longest);
    }
    SA_CHECK(node->longest == longest);
}

void sa_huge_map_validate(const struct sa_huge_map *map)
{
    struct walk walk = {0};

    if (map->root)
        node_validate(map->root, UINT64_MAX, &walk);
    SA_CHECK(walk.hugepages == map->hugepages);
    SA_CHECK(walk.ranges == map->ranges);
}
