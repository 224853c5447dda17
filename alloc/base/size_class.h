/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes: multiples of 16 up to 128 bytes, then eight steps to each doubling up to 256 KiB
 * (but 816 bytes, of which ten fit on a page, for 832), so that above 128 bytes at most 1/9 of an
 * object is lost to rounding. The tables are computed at start, because the length of a span
 * depends on the kernel's page size.
 *
 * Shape of spans. free() must tell the start of an object from its middle knowing only the address
 * and the class. So a span either is a power of two long and aligned to its length, and the offset
 * is the low part of the address; or its objects are whole pages, and only the pages where objects
 * start are entered in the map with their class.
 *
 * Everything here is constant after sa_size_class_init.
 */
#ifndef SA_BASE_SIZE_CLASS_H
#define SA_BASE_SIZE_CLASS_H

#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SA_NEAR_MAX   32
#define SA_MIDDLE_MAX 96

struct sa_class {
    uint32_t size;    /* bytes of an object */
    uint16_t pages;   /* length of its spans */
    uint16_t objects; /* that fit on a span */
    uint16_t batch;   /* objects moved between the layers at a time */
    uint16_t most;    /* capacity of a per-CPU cache at most */
    /* First slot in a slab, in words from its start; the word before it stays 0. The slots of a
     * class are in one of three places, see sa_class_slots: a program touches few pages where all
     * classes' few slots lie together. */
    uint16_t near; /* slots at near_begin */
    uint16_t near_begin, middle_begin;
    uint32_t begin;
    uint32_t map_step; /* bytes from one page entered in the map to the next, see class_shape */
    uint64_t check;    /* ceil(2^64 / size), see sa_class_index */
};

struct sa_size_classes {
    unsigned count; /* classes are 1 .. count - 1 */
    unsigned slab_words;
    struct sa_class of[SA_CLASSES_MAX];
};

extern struct sa_size_classes sa_size_classes;

/*
 * slab_header_words: words before the slots of a slab; slab_begin_words: before the slab, since a
 * page began. page_bytes: the kernel's.
 */
void sa_size_class_init(size_t page_bytes, unsigned slab_begin_words, unsigned slab_header_words);

/* The class for a size, 1 <= size <= SA_MID_MAX: the smallest that is not smaller. */
unsigned sa_size_class_find(size_t size);

/* Where in a slab a class has slots for so many objects; further on for more. */
static inline uint32_t sa_class_slots(const struct sa_class *c, uint32_t capacity)
{
    if (capacity <= c->near)
        return c->near_begin;
    return capacity <= SA_MIDDLE_MAX && c->most > SA_MIDDLE_MAX ? c->middle_begin : c->begin;
}

/*
 * Index of the object that begins offset bytes into a span, or -1 if none begins there. With
 * m = ceil(2^64/size) = (2^64 + e)/size, 0 <= e < size: the high word of offset * m is the
 * quotient and the low word is (offset mod size) * m + quotient * e, which is below m exactly when
 * the remainder is 0, as long as quotient * e < m; spans are far too short to break that.
 */
static inline long sa_class_index(const struct sa_class *c, size_t offset)
{
    unsigned __int128 product = (unsigned __int128)offset * c->check;
    uint64_t quotient = (uint64_t)(product >> 64);

    if ((uint64_t)product >= c->check || quotient >= c->objects)
        return -1;
    return (long)quotient;
}

/* Whether a span of the class is one object, and no more. */
SA_INLINE bool sa_class_alone(const struct sa_class *k)
{
    return k->objects == 1 && k->size == (size_t)k->pages << SA_PAGE_SHIFT;
}

#endif
