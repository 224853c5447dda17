/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of the recorded program, by the address that they had there. */
#ifndef PERF_FRAGMENTATION_MODEL_BLOCKS_H
#define PERF_FRAGMENTATION_MODEL_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

struct block {
    uint64_t address; /* in the program */
    uint64_t size;    /* that was asked for */
    uint64_t place;   /* in the model: the unit, or the pages of a block without a class */
    unsigned cls;     /* 0: none */
};

void blocks_add(const struct block *b);
/* Takes a block out. False: there is none, because the program had it before it was recorded. */
bool blocks_remove(uint64_t address, struct block *ret);

#endif
