/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a stopped target or a core, for who reads many small records, in any order. It is
 * remembered in lines. Two lines that lie a multiple of all places apart have the same place.
 * Unless all of the target's heap can be remembered, a line is read only when something on it is
 * wanted for the second time, and no other line of its place was wanted in between; before that,
 * the record alone is read. So records that lie side by side take one reading, and those that lie
 * far from each other do not drag their neighbours along.
 */
#ifndef SA_TOOL_HEAP_PAGES_H
#define SA_TOOL_HEAP_PAGES_H

#include "tool/target/target.h"

struct sa_pages {
    struct sa_target *target;
    size_t places;    /* a power of two */
    bool all;         /* each line is read when something on it is wanted first */
    uint64_t *lines;  /* which line is in each place */
    uint64_t *wanted; /* which line of each place was wanted last */
    char *data;
};

/* bytes: of the memory that it may take; heap: of what is to be read. False: there is no memory. */
bool sa_pages_open(struct sa_pages *p, struct sa_target *t, uint64_t bytes, uint64_t heap);
void sa_pages_close(struct sa_pages *p);

/* The bytes at an address, if they are in a line that is remembered, or that is read now; else
 * NULL. */
const void *sa_pages_look(struct sa_pages *p, uint64_t address, size_t bytes);

/* As sa_target_read. */
bool sa_pages_read(struct sa_pages *p, uint64_t address, void *buffer, size_t bytes);

#endif
