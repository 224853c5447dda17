/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary search tree of random keys: built by insertion, walked in order, freed. Nearly all of
 * the time goes into cache misses on the nodes, so what is compared is how densely and in which
 * order an allocator places blocks, not how fast it answers. One item is one node.
 */
#include "perf/harness.h"

#include <stdlib.h>

#define NODES 50000

struct node {
    struct node *left, *right;
    uint64_t key;
};

static struct node *tree_build(uint64_t *seed)
{
    struct node *root = NULL;

    for (size_t i = 0; i < NODES; i++) {
        struct node *n = malloc(sizeof(*n)), **at = &root;

        PERF_CHECK(n);
        *n = (struct node){.key = perf_random(seed)};
        while (*at)
            at = n->key < (*at)->key ? &(*at)->left : &(*at)->right;
        *at = n;
    }
    return root;
}

/* Visits the keys in order; returns how many there are. */
static size_t tree_walk(const struct node *n, uint64_t *last)
{
    size_t nodes = 1;

    if (n->left)
        nodes += tree_walk(n->left, last);
    if (n->key < *last)
        perf_fail("the tree is out of order");
    *last = n->key;
    if (n->right)
        nodes += tree_walk(n->right, last);
    return nodes;
}

static void tree_free(struct node *n)
{
    if (!n)
        return;
    tree_free(n->left);
    tree_free(n->right);
    free(n);
}

static void tree_run(const struct perf_run *run)
{
    for (uint64_t i = 0; i < run->iterations; i++) {
        /* Few different trees, so that the work does not depend on the number of iterations. */
        uint64_t seed = i % 4, last = 0;
        struct node *root = tree_build(&seed);

        if (tree_walk(root, &last) != NODES)
            perf_fail("nodes of the tree are lost");
        tree_free(root);
    }
}

const struct perf_case perf_tree[] = {
    {.name = "tree", .run = tree_run, .items = NODES},
    {.name = NULL},
};
