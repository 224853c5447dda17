/* SPDX-License-Identifier: Apache-2.0 */
/* What programs in C lose: it is allocated by lost_block. See leaker.h. */
#include "test/outside/tool/leaker.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t lost_blocks, lost_bytes;
static void *volatile place;

__attribute__((noinline, noclone)) static void *lost_block(size_t bytes)
{
    void *p = calloc(1, bytes);

    lost_blocks++;
    lost_bytes += malloc_usable_size(p);
    return p;
}

static struct node *lost_node(void)
{
    return lost_block(sizeof(struct node));
}

static void single(void)
{
    for (int i = 0; i < NODES; i++)
        lost_block(16 + (size_t)i * 10);
}

static void list(void)
{
    struct node *first = NULL;

    for (int i = 0; i < NODES; i++) {
        struct node *n = lost_node();

        n->next = first;
        first = n;
    }
}

static struct node *linked(bool ring)
{
    struct node *first = lost_node(), *last = first;

    for (int i = 1; i < NODES; i++) {
        struct node *n = lost_node();

        n->prev = last;
        last = last->next = n;
    }
    if (ring) {
        last->next = first;
        first->prev = last;
    }
    return first;
}

static void both_ways(void)
{
    linked(false);
}

static void ring(void)
{
    linked(true);
}

static struct node *make_tree(int depth, struct node *parent)
{
    struct node *n = lost_node();

    n->other = parent;
    if (depth) {
        n->next = make_tree(depth - 1, parent ? n : NULL);
        n->prev = make_tree(depth - 1, parent ? n : NULL);
    }
    return n;
}

static void tree(void)
{
    make_tree(5, NULL);
}

/* Each node knows its parent; the root is lost with a pointer to itself. */
static void tree_of_cycles(void)
{
    struct node *root = lost_node();

    root->other = root;
    root->next = make_tree(5, root);
}

static void table(void)
{
    void **t = lost_block(NODES * sizeof(*t));

    for (int i = 0; i < NODES; i++)
        t[i] = lost_block(24 + (size_t)i);
}

static void hash(void)
{
    struct node **t = lost_block(16 * sizeof(*t));

    for (int i = 0; i < NODES; i++) {
        struct node *n = lost_node();

        n->next = t[i % 16];
        t[i % 16] = n;
    }
}

static void graph(void)
{
    struct node *all[NODES];
    unsigned seed = 1;

    for (int i = 0; i < NODES; i++)
        all[i] = lost_node();
    for (int i = 0; i < NODES; i++) {
        all[i]->next = all[rand_r(&seed) % NODES];
        all[i]->prev = all[rand_r(&seed) % NODES];
    }
    memset(all, 0, sizeof(all));
    __asm__ volatile("" ::"r"(all) : "memory");
}

static void itself(void)
{
    for (int i = 0; i < NODES; i++) {
        struct node *n = lost_node();

        n->next = n;
    }
}

static void pairs(void)
{
    for (int i = 0; i < NODES / 2; i++) {
        struct node *a = lost_node(), *b = lost_node();

        a->next = b;
        b->next = a;
    }
}

/* Pointers into the middle. */
static void inner(void)
{
    struct node *first = NULL;

    for (int i = 0; i < NODES; i++) {
        struct node *n = lost_node();

        n->next = (void *)(first ? first->data + 9 : NULL);
        first = n;
    }
}

static void medium(void)
{
    for (int i = 0; i < NODES; i++)
        lost_block(2000 + (size_t)i * 300);
}

static void large(void)
{
    void **first = NULL;

    for (int i = 0; i < 4; i++) {
        void **p = lost_block(300000 + (size_t)i * 1000000);

        p[30000] = first;
        first = p;
    }
}

static void aligned(void)
{
    for (int i = 0; i < NODES; i++) {
        void *p = aligned_alloc(256, 512);

        lost_blocks++;
        lost_bytes += malloc_usable_size(p);
    }
}

static void replaced(void)
{
    for (int i = 0; i < NODES; i++)
        place = lost_block(64);
    place = NULL;
}

/* The root is freed, what it pointed to is not. */
static void root_only(void)
{
    void **t = kept_block(NODES * sizeof(*t));

    for (int i = 0; i < NODES; i++)
        t[i] = lost_block(100);
    free(t);
}

static void grown(void)
{
    for (int i = 0; i < NODES; i++) {
        void *p = realloc(realloc(malloc(10), 500), 2000);

        lost_blocks++;
        lost_bytes += malloc_usable_size(p);
    }
}

/* A kept object holds a pointer that is no address any more. */
static void hidden(void)
{
    static int used;
    uintptr_t *t = kept_block(NODES * sizeof(*t));

    for (int i = 0; i < NODES; i++)
        t[i] = ~(uintptr_t)lost_block(100);
    places[used++] = (void *)t;
}

static void *run_list(void *arg)
{
    list();
    return arg;
}

static void by_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_list, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(1);
}

/* A long list, which no recursion could follow. */
static void deep(void)
{
    struct node *first = NULL;

    for (int i = 0; i < DEEP / SHAPES; i++) {
        struct node *n = lost_block(16);

        n->next = first;
        first = n;
    }
}

static void strings(void)
{
    for (int i = 0; i < NODES; i++)
        strcpy(lost_block(100), "a string that is lost, and looks like no pointer");
}

const struct plant lost[] = {
    {"single", single, false},       {"list", list, false},
    {"both_ways", both_ways, false}, {"ring", ring, false},
    {"tree", tree, false},           {"tree_of_cycles", tree_of_cycles, false},
    {"table", table, false},         {"hash", hash, false},
    {"graph", graph, false},         {"itself", itself, false},
    {"pairs", pairs, false},         {"inner", inner, false},
    {"medium", medium, false},       {"large", large, false},
    {"aligned", aligned, false},     {"replaced", replaced, false},
    {"root_only", root_only, false}, {"grown", grown, false},
    {"hidden", hidden, false},       {"by_thread", by_thread, false},
    {"deep", deep, false},           {"strings", strings, false},
};

const size_t lost_count = sizeof(lost) / sizeof(*lost);
