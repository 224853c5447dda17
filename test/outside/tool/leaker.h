/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that lose memory, and programs that keep it in places that are hard to find. Each says
 * how many blocks, and how many bytes of them, are lost, then "ready", and waits for its standard
 * input to end.
 *
 *     usage: leaker PLANT    or without a plant: prints the names of all
 *
 * leaker.c and leaker_kept.c are plants in C, leaker_cxx.cc those in C++. What is lost is allocated
 * in a function lost_block, what is kept in kept_block.
 */
#ifndef TEST_OUTSIDE_TOOL_LEAKER_H
#define TEST_OUTSIDE_TOOL_LEAKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

extern const struct plant lost[], kept[];
extern const size_t lost_count, kept_count;

/* What is lost, with what the allocator has added. */
extern size_t lost_blocks, lost_bytes;

#ifdef __cplusplus
}
#else
/* Static data of the program in C. */
extern struct node *volatile places[SHAPES * NODES];

void *kept_block(size_t bytes);
#endif

#endif
