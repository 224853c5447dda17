/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which blocks of a heap can be reached from a set of words: by a pointer to the block or into it,
 * and then by the words in that block, and so on. Any word can be a pointer.
 *
 * Blocks wait to be read in a list of a fixed length, many at a time. A block that does not fit
 * marks its span. Marked spans are passed over afterwards, in the order of addresses. So memory is
 * bounded, whatever the shape of the heap. Two bits for each block say what is known of it:
 *
 *     free  reached
 *     0     0        live, and not reached
 *     0     1        reached, and not read yet
 *     1     1        reached and read: nothing more to do, as with one that is free
 *     1     0        free
 */
#ifndef SA_TOOL_LEAKS_MARK_H
#define SA_TOOL_LEAKS_MARK_H

#include "tool/heap/heap.h"
#include "tool/leaks/scan.h"

struct sa_mark {
    struct sa_heap *heap;
    struct sa_scan *scan;
    uint8_t *reached; /* a bit for each block */
    /* Tells that a sampled block was reached. */
    void (*sample)(void *arg, uint32_t number);
    void *arg;
    struct sa_waiting {
        uint64_t index; /* of a block on its span */
        struct sa_heap_span *span;
    } * waiting; /* blocks that were reached, and not read yet */
    size_t count;
    bool again; /* some spans are marked */
};

/* Bytes that sa_mark_open takes for so many blocks. */
uint64_t sa_mark_bytes(uint64_t blocks);

/* False: no memory. */
bool sa_mark_open(struct sa_mark *m, struct sa_heap *heap, struct sa_scan *scan);
void sa_mark_close(struct sa_mark *m);

/* Makes live again what was reached. */
void sa_mark_clear(struct sa_mark *m);

/* Leaves out what was reached from now on, as if it were free. */
void sa_mark_leave_out(struct sa_mark *m);

/* Words that may be pointers. Returns true, as sa_scan_range wants it. */
bool sa_mark_words(struct sa_mark *m, const uint64_t *words, size_t count);

/* A block is reached. */
void sa_mark_block(struct sa_mark *m, const struct sa_block *block);

/* Goes on from the blocks that were reached. */
void sa_mark_run(struct sa_mark *m);

#endif
