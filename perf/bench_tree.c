/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures whose time goes into cache misses on their nodes, so that what is compared is how
 * densely and in which order an allocator places blocks, not how fast it answers: a binary search
 * tree of random keys, built by insertion, walked in order and freed, and a list of records. One
 * item is one node.
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

/* ---- list: records of three blocks, linked in the order in which they were made, gone through ten
 * times ---- */

#define RECORDS 400000
#define WALKS   10

struct record {
    struct record *next;
    char *name;
    uint64_t *item;
    char rest[32];
};

static struct record *list_build(void)
{
    struct record *first = NULL, **last = &first;

    for (size_t i = 0; i < RECORDS; i++) {
        struct record *r = malloc(sizeof(*r));
        char *draft = malloc(20 + i % 32);

        *draft = (char)i;
        r->name = malloc(56);
        *r->name = *draft;
        free(draft);
        r->item = malloc(32);
        *r->item = i;
        r->next = NULL;
        *last = r;
        last = &r->next;
    }
    return first;
}

static uint64_t list_walk(const struct record *first)
{
    uint64_t sum = 0;

    for (const struct record *r = first; r; r = r->next)
        sum += *r->item + (*r->name != (char)*r->item);
    return sum;
}

static void list_run(const struct perf_run *run)
{
    for (uint64_t i = 0; i < run->iterations; i++) {
        struct record *first = list_build(), *next;

        for (int walk = 0; walk < WALKS; walk++)
            if (list_walk(first) != (uint64_t)RECORDS * (RECORDS - 1) / 2)
                perf_fail("records of the list are lost");
        for (; first; first = next) {
            next = first->next;
            free(first->name);
            free(first->item);
            free(first);
        }
    }
}

const struct perf_case perf_tree[] = {
    {.name = "tree", .run = tree_run, .items = NODES},
    {.name = "list", .run = list_run, .items = RECORDS},
    {.name = NULL},
};
