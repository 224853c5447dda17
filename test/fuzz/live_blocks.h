/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of the targets for caches, free lists and mixed spans: which blocks of a few size
 * classes are out, and what is in them. A block that was given twice is found when it comes, one
 * that overlaps another by its contents when it goes.
 */
#ifndef SA_TEST_FUZZ_LIVE_BLOCKS_H
#define SA_TEST_FUZZ_LIVE_BLOCKS_H

#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/mixed_spans.h"
#include "alloc/middle/transfer_cache.h"
#include "pagemap/pagemap.h"
#include "test/fuzz/fuzz.h"
#include "test/support/counts.h"

#define LIVE_CLASSES 4
#define LIVE_MAX     2048 /* blocks of each */
#define LIVE_BATCH   64
#define LIVE_SET     32768 /* a power of two, at least twice as many as there are blocks */
#define LIVE_WHOLE   64    /* bytes at both ends of a block that have contents */

struct live_class {
    unsigned cls;
    size_t count;
    struct live_block {
        uint8_t *p;
        uint8_t seed;
    } blocks[LIVE_MAX];
};

static struct {
    struct live_class classes[LIVE_CLASSES];
    uint8_t *set[LIVE_SET]; /* all blocks, by hash of their addresses */
    size_t bytes, bytes_max;
    uint8_t seed;
} live;

static inline size_t live_hash(const void *p)
{
    return (size_t)((uintptr_t)p * 0x9e3779b97f4a7c15ull >> 32) & (LIVE_SET - 1);
}

/* The place of a block in the set, or the empty one where it would be. */
static inline size_t live_find(const void *p)
{
    size_t at = live_hash(p);

    while (live.set[at] && live.set[at] != p)
        at = (at + 1) & (LIVE_SET - 1);
    return at;
}

static inline void live_forget(const void *p)
{
    size_t hole = live_find(p);

    FUZZ_CHECK(live.set[hole]);
    live.set[hole] = NULL;
    for (size_t at = (hole + 1) & (LIVE_SET - 1); live.set[at]; at = (at + 1) & (LIVE_SET - 1)) {
        uint8_t *moved = live.set[at];

        live.set[at] = NULL;
        live.set[live_find(moved)] = moved;
    }
}

static inline uint8_t live_content(uint8_t seed, size_t i)
{
    return (uint8_t)(seed + i * 7);
}

/* Of the bytes that have contents, the one after i. */
static inline size_t live_next(size_t i, size_t size)
{
    return i + 1 == LIVE_WHOLE && size > 2 * LIVE_WHOLE ? size - LIVE_WHOLE : i + 1;
}

static inline void live_check(const struct live_class *c, size_t i)
{
    const struct live_block *b = &c->blocks[i];
    size_t size = sa_size_classes.of[c->cls].size;

    for (size_t k = 0; k < size; k = live_next(k, size))
        if (b->p[k] != live_content(b->seed, k))
            FUZZ_FAIL("a block of %zu bytes has changed at %zu", size, k);
}

/* Different classes, each of at most so many bytes. */
static inline void live_begin(struct fuzz_input *in, size_t size_max, size_t bytes_max)
{
    unsigned classes = sa_size_class_find(size_max), cls;

    live.bytes_max = bytes_max;
    live.seed = 0;
    for (unsigned i = 0; i < LIVE_CLASSES; i++) {
        cls = (unsigned)fuzz_below(in, classes);
        for (unsigned k = 0; k < i; k++)
            if (live.classes[k].cls == 1 + cls) {
                cls = (cls + 1) % classes;
                k = -1u; /* from the first one on again */
            }
        live.classes[i].cls = 1 + cls;
        FUZZ_EQUAL(live.classes[i].count, 0);
    }
    FUZZ_EQUAL(live.bytes, 0);
}

static inline struct live_class *live_pick(struct fuzz_input *in)
{
    return &live.classes[fuzz_below(in, LIVE_CLASSES)];
}

/* How many blocks of a class may come, up to n. */
static inline size_t live_room(const struct live_class *c, size_t n)
{
    size_t left = (live.bytes_max - live.bytes) / sa_size_classes.of[c->cls].size;

    n = n < left ? n : left;
    return n < LIVE_MAX - c->count ? n : LIVE_MAX - c->count;
}

/* A block comes, with an alignment that its class promises, up to a maximum. */
static inline void live_add(struct live_class *c, void *p, size_t align_max)
{
    size_t size = sa_size_classes.of[c->cls].size, align = size & -size;
    struct live_block *b = &c->blocks[c->count++];
    size_t at = live_find(p);
    unsigned cls = sa_pagemap_class((uintptr_t)p);

    if (live.set[at])
        FUZZ_FAIL("a block of %zu bytes was given twice", size);
    FUZZ_EQUAL((uintptr_t)p & ((align < align_max ? align : align_max) - 1), 0);
    FUZZ_EQUAL(cls ? cls : sa_mixed_class((uintptr_t)p), c->cls);
    live.set[at] = p;
    live.bytes += size;
    *b = (struct live_block){p, ++live.seed};
    for (size_t k = 0; k < size; k = live_next(k, size))
        b->p[k] = live_content(b->seed, k);
}

/* Block i goes; what it was. */
static inline void *live_remove(struct live_class *c, size_t i)
{
    uint8_t *p = c->blocks[i].p;

    live_check(c, i);
    memset(p, 0xa5, sa_size_classes.of[c->cls].size < LIVE_WHOLE ? 8 : LIVE_WHOLE);
    live_forget(p);
    live.bytes -= sa_size_classes.of[c->cls].size;
    c->blocks[i] = c->blocks[--c->count];
    return p;
}

/* Up to n blocks go, from a place of the list on: the last ones, or any. How many. */
static inline size_t live_remove_some(struct fuzz_input *in, struct live_class *c, void **objs,
                                      size_t n)
{
    uint8_t how = fuzz_byte(in);

    n = n < c->count ? n : c->count;
    for (size_t i = 0; i < n; i++) {
        size_t last = c->count - 1;

        objs[i] = live_remove(c, how % 2 ? last : (how + i * 37) % (last + 1));
    }
    return n;
}

/* The blocks of a class outside of its central list: those of its spans, and of mixed spans. */
static inline size_t live_outside(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    struct sa_central_stats s = central_stats(cls);

    FUZZ_EQUAL(s.pages, s.spans * k->pages);
    FUZZ_EQUAL(s.spans_requested - s.spans_returned, s.spans);
    FUZZ_CHECK(s.free_objects <= s.spans * k->objects);
    return s.spans * k->objects - s.free_objects + s.mixed_objects;
}

/* Nothing is left of any class, once caches were emptied. */
static inline void live_end(void)
{
    struct sa_mixed_stats mixed;

    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        FUZZ_EQUAL(central_stats(cls).spans, 0);
        FUZZ_EQUAL(central_stats(cls).free_objects, 0);
        FUZZ_EQUAL(central_stats(cls).emptied_bytes, 0);
        FUZZ_EQUAL(transfer_stats(cls).objects, 0);
    }
    sa_mixed_stats(&mixed);
    FUZZ_EQUAL(mixed.spans, 0);
    FUZZ_EQUAL(mixed.used_bytes, 0);
    FUZZ_EQUAL(heap_in_use(), 0);
}

#endif
