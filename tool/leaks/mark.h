/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of a heap can be reached from a set of words: by a pointer to the block or into it,
 * and then by the words in that block, and so on. Any word can be a pointer.
 */
#ifndef SA_TOOL_LEAKS_MARK_H
#define SA_TOOL_LEAKS_MARK_H

#include "tool/heap/heap.h"
#include "tool/leaks/scan.h"

struct sa_mark {
    const struct sa_heap *heap;
    struct sa_scan *scan;
    const uint8_t *outside; /* a bit for each block: reached already, by other words; or NULL */
    uint8_t *reached;       /* a bit for each block */
    /* Tells that a sampled block was reached. */
    void (*sample)(void *arg, uint32_t number);
    void *arg;
    uint64_t *waiting; /* blocks that were reached, and not read yet: their addresses */
    size_t count, cap;
    uint64_t words[2048];
};

/* False: no memory. */
bool sa_mark_open(struct sa_mark *m, const struct sa_heap *heap, struct sa_scan *scan);
void sa_mark_close(struct sa_mark *m);

/* Words that may be pointers. False: no memory. */
bool sa_mark_words(struct sa_mark *m, const uint64_t *words, size_t count);

/* A block is reached. False: no memory. */
bool sa_mark_block(struct sa_mark *m, const struct sa_block *block);

/* Goes on from the blocks that were reached. False: no memory. */
bool sa_mark_run(struct sa_mark *m);

#endif
