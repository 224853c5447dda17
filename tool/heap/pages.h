/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a stopped target or a core, read in lines that are remembered: for who reads many
 * small records, in any order. Two lines that lie a multiple of all places apart have the same
 * place, and the one that is read later stays.
 */
#ifndef SA_TOOL_HEAP_PAGES_H
#define SA_TOOL_HEAP_PAGES_H

#include "tool/target/target.h"

struct sa_pages {
    struct sa_target *target;
    size_t places;   /* a power of two */
    uint64_t *lines; /* which line is in each place */
    char *data;
};

/* False: no memory. */
bool sa_pages_open(struct sa_pages *p, struct sa_target *t);
void sa_pages_close(struct sa_pages *p);

/* As sa_target_read. */
bool sa_pages_read(struct sa_pages *p, uint64_t address, void *buffer, size_t bytes);

#endif
