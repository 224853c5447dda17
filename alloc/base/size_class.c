/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the table of size classes; see size_class.h. Constant after sa_size_class_init. */
#include "alloc/base/size_class.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/layout.h"

SA_LAYOUT_USED struct sa_size_classes sa_size_classes;

/* A batch has CLASS_BATCH_BYTES at most, but 2 to CLASS_BATCH_MAX objects. */
#define CLASS_BATCH_BYTES 65536
#define CLASS_BATCH_MAX   32
#define CLASS_NEAR_ONLY   16 /* capacities up to this have all slots in the first place of a slab */

SA_STATIC_ASSERT(CLASS_BATCH_MAX <= SA_NEAR_MAX && CLASS_NEAR_ONLY <= SA_NEAR_MAX, "as said");

/*
 * In the third place of a slab, the slots of a class with a capacity above SA_MIDDLE_MAX begin near
 * a multiple of 4 KiB, so that some hundred slots lie on one page. The begin is staggered by class.
 * Otherwise the stacks of all classes would compete for the same sets of the first-level cache.
 */
#define CLASS_PAGE_WORDS    512
#define CLASS_STAGGERS      7
#define CLASS_STAGGER_WORDS 24

/* The maximum capacity in a per-CPU cache. A header counts up to SA_SLOTS_MAX (4095). */
static uint16_t class_max(size_t size)
{
    if (size <= 64)
        return 4095;
    if (size <= 256)
        return 2047;
    if (size <= 1024)
        return 1023;
    if (size <= 4096)
        return 255;
    return size <= 32768 ? 63 : 15;
}

/*
 * One class lies between two steps of the regular sequence: a kilobyte and a header of up to 64
 * bytes. Caches allocate such blocks (SQLite: 1032 bytes for a page of 1024), and a program may
 * have most of its memory in them. The next step, of 1152 bytes, would lose a tenth of it.
 */
#define CLASS_EXTRA_AFTER 1024
#define CLASS_EXTRA       1088

SA_STATIC_ASSERT(CLASS_EXTRA % SA_MID_GRAIN == 0, "the fast path's table tells it from the next");

/* The step after `at` in the sequence of classes. */
static size_t class_next(size_t at)
{
    if (at < 128)
        return at + 16;
    if (at == CLASS_EXTRA_AFTER)
        return CLASS_EXTRA;
    return sa_align_up(at + 1, (size_t)1 << (sa_log2(at) - 3));
}

/* The tail of a span, behind its last object, may be 1 / this of the span. */
static size_t class_tail_fraction(size_t size)
{
    return size <= 8192 ? 16 : 8;
}

/* The minimum number of objects on a span. */
static size_t class_fewest(size_t size)
{
    return size <= 1024 ? 8 : size <= 8192 ? 4 : size <= 32768 ? 2 : 1;
}

/*
 * The size of a class, given the step of the regular sequence and the size of the class before. If
 * more of a page would be left over than class_tail_fraction allows, it is the largest multiple of
 * 16 of which one more object fits. Only classes with spans of one page are adjusted, which the
 * fast path frees. Above SA_SMALL_MAX the table of that path knows multiples of SA_MID_GRAIN only.
 */
static size_t class_size(size_t step, size_t before)
{
    size_t objects = SA_PAGE_BYTES / step, lower;

    if (step > SA_SMALL_MAX || SA_PAGE_BYTES % step <= SA_PAGE_BYTES / class_tail_fraction(step))
        return step;
    lower = SA_PAGE_BYTES / (objects + 1) & ~(size_t)15;
    return lower > before ? lower : step;
}

/* Sets the length of a class's spans and the step of its map entries. step: the kernel's page size
 * in salloc's pages, of which every span is a multiple. */
static void class_shape(struct sa_class *c, size_t step)
{
    size_t pages = step, bytes;

    if (c->size % (step << SA_PAGE_SHIFT) == 0) { /* objects are whole pages */
        pages = c->size >> SA_PAGE_SHIFT;
        c->pages = (uint16_t)(pages * class_fewest(c->size));
        c->map_step = c->size;
        return;
    }
    for (;; pages *= 2) {
        bytes = pages << SA_PAGE_SHIFT;
        if (bytes / c->size >= class_fewest(c->size) &&
            bytes % c->size <= bytes / class_tail_fraction(c->size))
            break;
    }
    c->pages = (uint16_t)pages;
    c->map_step = SA_PAGE_BYTES;
}

void sa_size_class_init(size_t page_bytes, unsigned slab_begin_words, unsigned slab_header_words)
{
    size_t step = sa_max(page_bytes >> SA_PAGE_SHIFT, 1);
    unsigned words = slab_header_words, n = 1;

    for (size_t at = 16; n < SA_CLASSES; at = class_next(at), n++) {
        struct sa_class *c = &sa_size_classes.of[n];
        size_t size = class_size(at, c[-1].size);

        c->size = (uint32_t)size;
        class_shape(c, step);
        c->objects = (uint16_t)(((size_t)c->pages << SA_PAGE_SHIFT) / size);
        c->batch = (uint16_t)sa_min(sa_max(CLASS_BATCH_BYTES / size, 2), CLASS_BATCH_MAX);
        c->max = class_max(size);
        c->check = UINT64_MAX / size + 1;
        c->near = c->max <= CLASS_NEAR_ONLY ? c->max : c->batch;
        c->near_begin = (uint16_t)(words + 1);
        c->begin = c->near_begin;
        words += 1u + c->near;
    }
    SA_DCHECK(sa_size_classes.of[n - 1].size == SA_MID_MAX);
    sa_size_classes.count = n;
    for (unsigned cls = 1; cls < n; cls++) {
        struct sa_class *c = &sa_size_classes.of[cls];

        if (c->max <= SA_MIDDLE_MAX)
            continue;
        c->middle_begin = (uint16_t)(words + 1);
        words += 1 + SA_MIDDLE_MAX;
    }
    for (unsigned cls = 1; cls < n; cls++) {
        struct sa_class *c = &sa_size_classes.of[cls];

        if (c->near == c->max)
            continue;
        if (c->max > SA_MIDDLE_MAX) {
            words += slab_begin_words;
            words = (unsigned)sa_align_up(words, CLASS_PAGE_WORDS) +
                    cls % CLASS_STAGGERS * CLASS_STAGGER_WORDS;
            words -= slab_begin_words;
        }
        c->begin = words + 1;
        words += 1 + c->max;
    }
    sa_size_classes.slab_words = words;
}

unsigned sa_size_class_find(size_t size)
{
    unsigned shift, cls;

    SA_DCHECK(size >= 1 && size <= SA_MID_MAX);
    if (size <= 128)
        return (unsigned)((size + 15) / 16);
    shift = sa_log2(size - 1) - 3;
    /* Above 128 there are eight steps to a doubling, the first of which is class number 9. */
    cls = 9 + (shift - 4) * 8 + (unsigned)(((size - 1) >> shift) - 8);
    cls += size > CLASS_EXTRA;
    /* class_size may have made the class smaller. */
    return cls + (size > sa_size_classes.of[cls].size);
}
