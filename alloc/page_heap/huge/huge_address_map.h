/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of hugepages that nobody uses, by address: a treap whose nodes know the longest range
 * below them. Neighbouring ranges merge. The heap has two such maps: the unbacked ranges (the
 * address map proper) and the backed ranges (the cache).
 *
 * The nodes come from a store that both trees share. In the worst case, a tree needs a node for an
 * insert or a split, and freeing memory must not fail. The caller that takes a range out therefore
 * first makes sure that the store can serve what may follow (sa_huge_nodes_ready). No lock of its
 * own. Numbers are addresses in hugepages.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_ADDRESS_MAP_H
#define SA_PAGE_HEAP_HUGE_HUGE_ADDRESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sa_huge_node {
    size_t start, length;
    size_t longest;    /* of the ranges of this node and those below it */
    uint64_t since_ns; /* when the range became cached or released; the mean over its parts */
    uint64_t priority;
    struct sa_huge_node *left, *right; /* right also links unused nodes */
};

struct sa_huge_nodes {
    struct sa_huge_node *unused;
    size_t unused_count, created;
    uint64_t random;
};

struct sa_huge_map {
    struct sa_huge_node *root;
    size_t hugepages, ranges;
};

/* Makes sure that n nodes are unused. False when out of memory. */
bool sa_huge_nodes_ready(struct sa_huge_nodes *nodes, size_t n);

/* Requires an unused node. The range touches no range of the tree but at its ends. */
void sa_huge_map_insert(struct sa_huge_map *map, struct sa_huge_nodes *nodes, size_t start,
                        size_t length, uint64_t since_ns);

#define SA_HUGE_NONE SIZE_MAX

/*
 * Takes n hugepages from the start of the shortest range that the descent finds to hold them; or
 * the n at a multiple of align, for which one node more must be ready. Returns the first hugepage,
 * or SA_HUGE_NONE.
 */
size_t sa_huge_map_take(struct sa_huge_map *map, struct sa_huge_nodes *nodes, size_t n,
                        size_t align);

/* Takes exactly [start, start + n) out if it lies in one range. Requires an unused node. */
bool sa_huge_map_take_at(struct sa_huge_map *map, struct sa_huge_nodes *nodes, size_t start,
                         size_t n);

/* The range that holds the hugepage, or NULL. */
const struct sa_huge_node *sa_huge_map_find(const struct sa_huge_map *map, size_t hugepage);

/* The longest range, the shortest range, or NULL. */
const struct sa_huge_node *sa_huge_map_longest(const struct sa_huge_map *map);
const struct sa_huge_node *sa_huge_map_shortest(const struct sa_huge_map *map);

/* The range that begins at or follows the hugepage number, or NULL: to walk over all. */
const struct sa_huge_node *sa_huge_map_from(const struct sa_huge_map *map, size_t hugepage);

/* Ends the program if the tree is not in order: huge_map_validate.c. */
void sa_huge_map_validate(const struct sa_huge_map *map);

#endif
