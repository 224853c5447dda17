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

/*
 * A span: blocks of one size from its start on; or one block, which a sample may say lies elsewhere
 * on it. Heaps have a span for each 8 KiB, so it is small.
 */
struct sa_heap_span {
    uint64_t place;   /* its start, and SA_SPAN_... in the bits that are 0 in it */
    uint64_t bit;     /* number of the first block among all of the heap */
    uint32_t pages;   /* of the target's heap */
    uint32_t objects; /* of a class: how many; else the number of its sample, plus 1; 0: none */
};

/* Bits of a place: the size class of its blocks, 0 if it is one block; and that blocks of it were
 * reached and are to be read (tool/leaks/mark.c). */
#define SA_SPAN_CLASS 0xffu
#define SA_SPAN_AGAIN 0x100u
#define SA_SPAN_BITS  0xfffu

struct sa_block {
    uint64_t start, bytes;
    uint64_t bit; /* its number */
    struct sa_heap_span *span;
};

/* Where the block of a sample lies. */
struct sa_heap_sample {
    uint64_t start, bytes; /* 0 bytes: not known */
    size_t span;           /* its index */
};

#define SA_HEAP_ROOTS 4096

struct sa_heap {
    struct sa_target *target;
    struct sa_pages *pages;
    unsigned page_shift, root_shift, leaf_shift; /* of the address */
    struct sa_heap_span *spans;
    size_t count, cap;
    struct sa_heap_sample *samples;    /* by their numbers */
    uint64_t size_of[256];             /* of classes; 0: there is none */
    uint64_t blocks, bytes;            /* in all, and of all spans */
    uint32_t **leaves[SA_HEAP_ROOTS];  /* [root][node][page]: number of a span, plus 1 */
    size_t leaf_count;                 /* of the target's that were read */
    uint8_t *free;                     /* a bit for each block */
    const uint8_t *reached;            /* tool/leaks/mark.h; NULL: nothing was reached */
    struct sa_area last;               /* that was looked at */
    uint64_t low, high;                /* all spans are between these */
    uint64_t window_start, window_end; /* addresses that are the library's alone */
    uint64_t table_bytes; /* of the library's memory: tables of classes, which have no pointers */
    uint64_t record_low, record_high, record_start; /* records of spans: the first, the last, and
                                                     * where in one its span's address is */
    uint64_t root, root_bytes, root_node;           /* the target's map: its first root, the bytes
                                                     * of a root, and where in one its node is */
    struct sa_page_set records;                     /* pages with records of the library */
};

/* Reads the heap. */
bool sa_heap_open(struct sa_heap *h, struct sa_pages *pages, const struct sa_table *table,
                  struct sa_error *e);
void sa_heap_close(struct sa_heap *h);

static inline uint64_t sa_span_start(const struct sa_heap_span *s)
{
    return s->place & ~(uint64_t)SA_SPAN_BITS;
}

/* The size class of a span's blocks, or 0. */
static inline unsigned sa_span_class(const struct sa_heap_span *s)
{
    return s->place & SA_SPAN_CLASS;
}

static inline uint32_t sa_span_blocks(const struct sa_heap_span *s)
{
    return sa_span_class(s) ? s->objects : 1;
}

/* The number of the sample that a span is, plus 1; 0: it is none. */
static inline uint32_t sa_span_sample(const struct sa_heap_span *s)
{
    return sa_span_class(s) ? 0 : s->objects;
}

/* The span in use at an address, or NULL. */
struct sa_heap_span *sa_heap_span(const struct sa_heap *h, uint64_t address);

/* A block of a span, by its index on it, which is below sa_span_blocks; free or not. */
struct sa_block sa_heap_block_at(const struct sa_heap *h, struct sa_heap_span *s, uint64_t index);

/* The block that an address points to or into, or to the end of. False: it is none, or free. */
bool sa_heap_block(const struct sa_heap *h, uint64_t address, struct sa_block *ret);

/* The address of a span's record in the target; 0: it cannot be read. */
uint64_t sa_heap_record(const struct sa_heap *h, const struct sa_heap_span *s);

/* The block of a span of one block, by the address of the span's record. False: it is none, or
 * free. */
bool sa_heap_block_of_record(const struct sa_heap *h, uint64_t record, struct sa_block *ret);

/* Makes room for `count` samples. False: no memory. */
bool sa_heap_make_samples(struct sa_heap *h, size_t count);

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
