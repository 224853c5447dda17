/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap of a target as a map from addresses to blocks: the spans in use of its radix map
 * (pagemap/pagemap.h), with the blocks on each, and which of these are free. It fits only if the
 * target does not run meanwhile.
 */
#ifndef SA_TOOL_HEAP_HEAP_H
#define SA_TOOL_HEAP_HEAP_H

#include "tool/heap/page_set.h"
#include "tool/heap/pages.h"
#include "tool/layout/table.h"

/* A span: `objects` blocks of `size` bytes from `first` on. */
struct sa_heap_span {
    uint64_t start, end;
    uint64_t first, size;
    uint64_t record;  /* its address in the target */
    uint64_t bit;     /* number of the first block among all of the heap */
    uint32_t objects; /* at least 1 */
    uint32_t sample;  /* number of the sampled block that it is, plus 1; 0: none */
    bool of_class;    /* its blocks are of a size class */
};

struct sa_block {
    uint64_t start, bytes;
    uint64_t bit; /* its number */
    const struct sa_heap_span *span;
};

#define SA_HEAP_ROOTS 4096

struct sa_heap {
    struct sa_target *target;
    struct sa_pages *pages;
    unsigned page_shift, root_shift, leaf_shift; /* of the address */
    struct sa_heap_span *spans;
    size_t count, cap;
    uint64_t blocks;                   /* in all */
    uint32_t **leaves[SA_HEAP_ROOTS];  /* [root][node][page]: number of a span, plus 1 */
    size_t leaf_count;                 /* of the target's that were read */
    uint8_t *free;                     /* a bit for each block */
    struct sa_area last;               /* that was looked at */
    uint64_t low, high;                /* all spans are between these */
    uint64_t window_start, window_end; /* addresses that are the library's alone */
    uint64_t table_bytes; /* of the library's memory: tables of classes, which have no pointers */
    uint64_t record_low, record_high, record_start; /* records of spans: the first, the last, and
                                                     * where in one its span's address is */
    struct sa_page_set records;                     /* pages with records of the library */
};

/* Reads the heap. */
bool sa_heap_open(struct sa_heap *h, struct sa_pages *pages, const struct sa_table *table,
                  struct sa_error *e);
void sa_heap_close(struct sa_heap *h);

/* The span in use at an address, or NULL. */
struct sa_heap_span *sa_heap_span(const struct sa_heap *h, uint64_t address);

/* The block that an address points to or into, or to the end of. False: it is none, or free. */
bool sa_heap_block(const struct sa_heap *h, uint64_t address, struct sa_block *ret);

/* The block of a span of one block, by the address of the span's record. False: it is none, or
 * free. */
bool sa_heap_block_of_record(const struct sa_heap *h, uint64_t record, struct sa_block *ret);

/* Says that a span is one sampled block, which lies there. False: it cannot be. */
bool sa_heap_set_sample(struct sa_heap *h, uint64_t address, uint64_t bytes, uint32_t number);

/* Enters the objects that are free: on their spans, and in the caches of CPUs and the transfer
 * caches (tool/heap/heap_free.c). False: no memory. */
bool sa_heap_read_free(struct sa_heap *h, const struct sa_table *table, struct sa_error *e);

static inline bool sa_heap_bit(const uint8_t *bits, uint64_t n)
{
    return bits[n >> 3] >> (n & 7) & 1;
}

static inline void sa_heap_set_bit(uint8_t *bits, uint64_t n)
{
    bits[n >> 3] |= (uint8_t)(1u << (n & 7));
}

#endif
