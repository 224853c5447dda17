/* SPDX-License-Identifier: Apache-2.0 */
/* What the program leaker plants: leaker.c what is lost, leaker_kept.c what is kept. */
#ifndef TEST_OUTSIDE_TOOL_LEAKER_H
#define TEST_OUTSIDE_TOOL_LEAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPES 8   /* of each kind, in a row */
#define NODES  100 /* of each */
#define DEEP   200000

struct node {
    struct node *next, *prev, *other;
    char data[72];
};

struct plant {
    const char *name;
    void (*make)(void);
    bool once; /* rather than SHAPES times */
};

extern const struct plant kept[];
extern const size_t kept_count;

/* Static data of the program. */
extern struct node *volatile places[SHAPES * NODES];

void *kept_block(size_t bytes);

#endif
