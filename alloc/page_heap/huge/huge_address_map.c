/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The treap of ranges; see huge_address_map.h. It is a tree by address and a heap by random
 * priority, so that its expected depth is logarithmic for every order of operations. Functions
 * recurse over that depth.
 */
#include "alloc/page_heap/huge/huge_address_map.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/rng.h"
#include "pagemap/arena.h"

bool sa_huge_nodes_ready(struct sa_huge_nodes *nodes, size_t n)
{
    while (nodes->unused_count < n) {
        struct sa_huge_node *node = sa_arena_alloc(sizeof(*node), 8);

        if (!node)
            return false;
        node->right = nodes->unused;
        nodes->unused = node;
        nodes->unused_count++;
        nodes->created++;
    }
    return true;
}

static void node_drop(struct sa_huge_nodes *nodes, struct sa_huge_node *node)
{
    node->right = nodes->unused;
    nodes->unused = node;
    nodes->unused_count++;
}

static size_t longest_of(const struct sa_huge_node *node)
{
    return node ? node->longest : 0;
}

static void node_update(struct sa_huge_node *node)
{
    node->longest = sa_max(node->length, sa_max(longest_of(node->left), longest_of(node->right)));
}

/* Splits a tree into the nodes before `at` and the others. */
static void treap_split(struct sa_huge_node *node, size_t at, struct sa_huge_node **left,
                        struct sa_huge_node **right)
{
    if (!node) {
        *left = *right = NULL;
    } else if (node->start < at) {
        treap_split(node->right, at, &node->right, right);
        node_update(node);
        *left = node;
    } else {
        treap_split(node->left, at, left, &node->left);
        node_update(node);
        *right = node;
    }
}

/* Joins two trees, all of `left` before all of `right`. */
static struct sa_huge_node *treap_join(struct sa_huge_node *left, struct sa_huge_node *right)
{
    if (!left || !right)
        return left ? left : right;
    if (left->priority > right->priority) {
        left->right = treap_join(left->right, right);
        node_update(left);
        return left;
    }
    right->left = treap_join(left, right->left);
    node_update(right);
    return right;
}

static struct sa_huge_node *treap_insert(struct sa_huge_node *tree, struct sa_huge_node *node)
{
    if (!tree || node->priority > tree->priority) {
        treap_split(tree, node->start, &node->left, &node->right);
        node_update(node);
        return node;
    }
    if (node->start < tree->start)
        tree->left = treap_insert(tree->left, node);
    else
        tree->right = treap_insert(tree->right, node);
    node_update(tree);
    return tree;
}

static struct sa_huge_node *treap_remove(struct sa_huge_node *tree, struct sa_huge_node *node)
{
    if (tree == node)
        return treap_join(node->left, node->right);
    if (node->start < tree->start)
        tree->left = treap_remove(tree->left, node);
    else
        tree->right = treap_remove(tree->right, node);
    node_update(tree);
    return tree;
}

static void map_remove(struct sa_huge_map *map, struct sa_huge_node *node)
{
    map->root = treap_remove(map->root, node);
    map->hugepages -= node->length;
    map->ranges--;
}

static void map_add(struct sa_huge_map *map, struct sa_huge_node *node)
{
    map->root = treap_insert(map->root, node);
    map->hugepages += node->length;
    map->ranges++;
}

/* Updates `longest` after a node's range has changed, but not its place in the order. */
static void treap_refresh(struct sa_huge_node *tree, const struct sa_huge_node *node)
{
    if (tree != node)
        treap_refresh(node->start < tree->start ? tree->left : tree->right, node);
    node_update(tree);
}

static void map_resize(struct sa_huge_map *map, struct sa_huge_node *node, size_t start,
                       size_t length)
{
    map->hugepages += length - node->length;
    node->start = start;
    node->length = length;
    treap_refresh(map->root, node);
}

/* The last range that begins before or at the number. */
static struct sa_huge_node *map_before(const struct sa_huge_map *map, size_t hugepage)
{
    struct sa_huge_node *node = map->root, *found = NULL;

    while (node) {
        if (node->start <= hugepage) {
            found = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return found;
}

const struct sa_huge_node *sa_huge_map_find(const struct sa_huge_map *map, size_t hugepage)
{
    const struct sa_huge_node *node = map_before(map, hugepage);

    return node && hugepage - node->start < node->length ? node : NULL;
}

const struct sa_huge_node *sa_huge_map_from(const struct sa_huge_map *map, size_t hugepage)
{
    const struct sa_huge_node *node = map->root, *found = NULL;

    while (node) {
        if (node->start >= hugepage) {
            found = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return found;
}

static uint64_t mean_since(uint64_t a, size_t a_length, uint64_t b, size_t b_length)
{
    uint64_t low = a < b ? a : b;
    double weighted = (double)(a - low) * (double)a_length + (double)(b - low) * (double)b_length;

    return low + (uint64_t)(weighted / (double)(a_length + b_length));
}

void sa_huge_map_insert(struct sa_huge_map *map, struct sa_huge_nodes *nodes, size_t start,
                        size_t length, uint64_t since_ns)
{
    struct sa_huge_node *before = map_before(map, start), *node;
    struct sa_huge_node *after = (struct sa_huge_node *)sa_huge_map_find(map, start + length);

    SA_DCHECK(length > 0);
    SA_DCHECK(!before || before->start + before->length <= start);
    SA_DCHECK(!after || after->start == start + length);
    if (before && before->start + before->length != start)
        before = NULL;
    if (before && after) {
        map_remove(map, after);
        since_ns = mean_since(after->since_ns, after->length, since_ns, length);
        length += after->length;
        node_drop(nodes, after);
    }
    if (before || after) {
        node = before ? before : after;
        node->since_ns = mean_since(node->since_ns, node->length, since_ns, length);
        map_resize(map, node, before ? node->start : start, node->length + length);
        return;
    }
    node = nodes->unused;
    SA_DCHECK(node && nodes->unused_count > 0);
    nodes->unused = node->right;
    nodes->unused_count--;
    nodes->random += SA_RNG_STEP;
    *node = (struct sa_huge_node){.start = start,
                                  .length = length,
                                  .since_ns = since_ns,
                                  .priority = sa_rng_mix(nodes->random)};
    map_add(map, node);
}

/* Takes [start, start + n) out of the node's range. */
static void map_cut(struct sa_huge_map *map, struct sa_huge_nodes *nodes, struct sa_huge_node *node,
                    size_t start, size_t n)
{
    size_t end = node->start + node->length;
    uint64_t since = node->since_ns;

    SA_DCHECK(n > 0 && start >= node->start && start + n <= end);
    if (start == node->start && n == node->length) {
        map_remove(map, node);
        node_drop(nodes, node);
    } else if (start == node->start) {
        map_resize(map, node, start + n, node->length - n);
    } else {
        map_resize(map, node, node->start, start - node->start);
        if (start + n < end)
            sa_huge_map_insert(map, nodes, start + n, end - start - n, since);
    }
}

size_t sa_huge_map_take(struct sa_huge_map *map, struct sa_huge_nodes *nodes, size_t n,
                        size_t align)
{
    /* A range this long holds n hugepages at any alignment, wherever it begins. */
    size_t min = n + align - 1, start;
    struct sa_huge_node *node = map->root, *best = NULL;

    SA_DCHECK(n > 0 && align > 0 && (align & (align - 1)) == 0);
    while (node && node->longest >= min) {
        struct sa_huge_node *left = node->left, *right = node->right;

        if (node->length >= min && (!best || node->length < best->length))
            best = node;
        if (longest_of(left) < min)
            node = right;
        else if (longest_of(right) < min || left->longest <= right->longest)
            node = left;
        else
            node = right;
    }
    if (!best)
        return SA_HUGE_NONE;
    start = sa_align_up(best->start, align);
    map_cut(map, nodes, best, start, n);
    return start;
}

bool sa_huge_map_take_at(struct sa_huge_map *map, struct sa_huge_nodes *nodes, size_t start,
                         size_t n)
{
    struct sa_huge_node *node = (struct sa_huge_node *)sa_huge_map_find(map, start);

    if (!node || node->start + node->length - start < n)
        return false;
    map_cut(map, nodes, node, start, n);
    return true;
}

SA_RARE const struct sa_huge_node *sa_huge_map_longest(const struct sa_huge_map *map)
{
    const struct sa_huge_node *node = map->root;

    while (node && node->length != node->longest)
        node = longest_of(node->left) == node->longest ? node->left : node->right;
    return node;
}

SA_RARE const struct sa_huge_node *sa_huge_map_shortest(const struct sa_huge_map *map)
{
    const struct sa_huge_node *best = NULL, *node;
    size_t tries = 64; /* among many ranges, a short one is good enough */

    for (node = sa_huge_map_from(map, 0); node && tries--;
         node = sa_huge_map_from(map, node->start + 1))
        if (!best || node->length < best->length)
            best = node;
    return best;
}
