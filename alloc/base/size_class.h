/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Size classes. Up to 128 bytes they are the multiples of 16, from there to 256 KiB eight steps to
 * each doubling. One step differs: 816 bytes instead of 832, because ten objects of 816 fit on a
 * page. One class is added, of 1088 bytes, for blocks of a kilobyte with a header. Above 128 bytes,
 * rounding loses at most 1/9 of an object. Start-up computes the table, because the length of a
 * span depends on the kernel's page size.
 *
 * Shape of spans. free must tell the start of an object from its middle by address and class alone.
 * So either a span is a power of two long and aligned to its length, and the offset of an object is
 * the low part of the address. Or objects are whole pages, and the map holds the class only for
 * pages on which an object starts.
 *
 * The table is constant after sa_size_class_init, which start-up calls before the first allocation.
 * Readers need no lock.
 */
#ifndef SA_BASE_SIZE_CLASS_H
#define SA_BASE_SIZE_CLASS_H

#include "alloc/base/page.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of classes, including class 0 (none): eight up to 128 bytes, eight for each of eleven
 * doublings, and the added one. */
#define SA_CLASSES (1 + 8 + 8 * 11 + 1)
SA_STATIC_ASSERT(SA_MID_MAX == 128 << 11 && SA_CLASSES <= SA_CLASSES_MAX, "as said");

#define SA_NEAR_MAX   32
#define SA_MIDDLE_MAX 96

struct sa_class {
    uint32_t size;    /* bytes of an object */
    uint16_t pages;   /* pages of its spans */
    uint16_t objects; /* objects that fit on a span */
    uint16_t batch;   /* objects that move between the layers at a time */
    uint16_t max;     /* maximum capacity in a per-CPU cache */
    /*
     * Where a slab has slots of the class, in words from the slab's start. The word before the
     * first slot stays 0. A class has its slots in one of three places, by its capacity
     * (sa_class_slots). The few slots of small capacities lie together, so that a program touches
     * few pages.
     */
    uint16_t near; /* number of slots at near_begin */
    uint16_t near_begin, middle_begin;
    uint32_t begin;
    uint32_t map_step; /* bytes from one page entered in the map to the next, see class_shape */
    uint64_t check;    /* ceil(2^64 / size), see sa_class_index */
};

struct sa_size_classes {
    unsigned count; /* SA_CLASSES; 0: not initialised */
    unsigned slab_words;
    struct sa_class of[SA_CLASSES_MAX];
};

extern struct sa_size_classes sa_size_classes;

/* Computes the table. page_bytes: the kernel's page size. slab_header_words: words of a slab before
 * its slots. slab_begin_words: words between the begin of a page and the slab. */
void sa_size_class_init(size_t page_bytes, unsigned slab_begin_words, unsigned slab_header_words);

/* The smallest class of at least `size` bytes, for 1 <= size <= SA_MID_MAX. */
unsigned sa_size_class_find(size_t size);

/* The place, in words from the slab's start, of a class's slots for a given capacity. */
static inline uint32_t sa_class_slots(const struct sa_class *c, uint32_t capacity)
{
    if (capacity <= c->near)
        return c->near_begin;
    return capacity <= SA_MIDDLE_MAX && c->max > SA_MIDDLE_MAX ? c->middle_begin : c->begin;
}

/*
 * The index of the object that begins `offset` bytes into a span; -1: none begins there. Let m =
 * ceil(2^64/size) = (2^64 + e)/size, with 0 <= e < size. The high word of offset * m is the
 * quotient. The low word is (offset mod size) * m + quotient * e. That is below m exactly if the
 * remainder is 0, as long as quotient * e < m, which holds for all lengths of spans.
 */
static inline long sa_class_index(const struct sa_class *c, size_t offset)
{
    unsigned __int128 product = (unsigned __int128)offset * c->check;
    uint64_t quotient = (uint64_t)(product >> 64);

    if ((uint64_t)product >= c->check || quotient >= c->objects)
        return -1;
    return (long)quotient;
}

/* True if a span of the class is one object and has no tail. */
SA_INLINE bool sa_class_is_single(const struct sa_class *k)
{
    return k->objects == 1 && k->size == (size_t)k->pages << SA_PAGE_SHIFT;
}

#endif
