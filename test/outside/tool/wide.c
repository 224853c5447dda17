/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of a shape: list, a long list; table, chains that begin in one long block, so that more
 * blocks are known at once than a reader remembers; shuffled, a list whose blocks lie anywhere. As
 * much again is lost, in the same shape. usage: tool_wide SHAPE MIB BYTES
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
    struct node *next;
};

static uint64_t seed = 88172645463325252u;

static uint64_t number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static __attribute__((noinline)) struct node *node(size_t bytes)
{
    return calloc(1, bytes);
}

static void *list(size_t count, size_t bytes)
{
    struct node *head = NULL;

    for (size_t i = 0; i < count; i++) {
        struct node *n = node(bytes);

        n->next = head;
        head = n;
    }
    return head;
}

static void *table(size_t count, size_t bytes)
{
    struct node **chains = calloc(count / 2 + 1, sizeof(*chains));

    for (size_t i = 0; i < count; i++) {
        struct node *n = node(bytes), **chain = &chains[number() % (count / 2 + 1)];

        n->next = *chain;
        *chain = n;
    }
    return chains;
}

static void *shuffled(size_t count, size_t bytes)
{
    struct node **all = calloc(count, sizeof(*all)), *head = NULL;

    for (size_t i = 0; i < count; i++)
        all[i] = node(bytes);
    for (size_t i = count; i > 0; i--) {
        size_t other = number() % i;
        struct node *n = all[other];

        all[other] = all[i - 1];
        n->next = head;
        head = n;
    }
    free(all);
    return head;
}

static void *kept;

/* So that no frame has pointers to what was lost. */
static __attribute__((noinline)) void clear_stack(void)
{
    volatile char room[65536];

    for (size_t i = 0; i < sizeof(room); i++)
        room[i] = 0;
}

int main(int argc, char **argv)
{
    size_t bytes = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
    size_t count = bytes ? (strtoul(argv[2], NULL, 10) << 20) / bytes / 2 : 0;
    void *(*make)(size_t, size_t) = argc < 2 || strcmp(argv[1], "list") == 0 ? list
                                    : strcmp(argv[1], "table") == 0          ? table
                                                                             : shuffled;

    if (!count)
        return 2;
    make(count, bytes);
    clear_stack();
    kept = make(count, bytes);
    puts("ready");
    fflush(stdout);
    pause();
    return kept == NULL;
}
