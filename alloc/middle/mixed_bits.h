/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bitmaps of mixed spans (mixed_spans.h), and the bins of their free runs. A page is divided
 * into units of 16 bytes. Bit u of `first` is set if a block begins at unit u, bit u of `last` if a
 * block ends there. Each page has 8 words of `first` and then 8 words of `last`; the words of
 * neighbouring pages follow each other.
 *
 * Which units are occupied follows from the two. Blocks do not overlap, so as numbers of many
 * words, 2 * last - first is the sum over all blocks of 2^(end) - 2^(begin), which is the number
 * with exactly the bits of all occupied units. sa_mixed_run computes it word by word.
 *
 * The MIXED lock guards changes, which are relaxed stores of whole words. Both bits of a block
 * belong to the block alone, so its owner can read its length without the lock (sa_mixed_length).
 */
#ifndef SA_MIDDLE_MIXED_BITS_H
#define SA_MIDDLE_MIXED_BITS_H

#include "alloc/base/atomic.h"
#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"
#include "alloc/base/page.h"

#define SA_MIXED_UNIT       16ul
#define SA_MIXED_PAGE_UNITS (SA_PAGE_BYTES / SA_MIXED_UNIT)
#define SA_MIXED_PAGE_WORDS (SA_MIXED_PAGE_UNITS / 64)

/* The words of a page. */
struct sa_mixed_page {
    uint64_t first[SA_MIXED_PAGE_WORDS], last[SA_MIXED_PAGE_WORDS];
};

SA_INLINE uint64_t *sa_mixed_first(struct sa_mixed_page *pages, size_t word)
{
    return &pages[word / SA_MIXED_PAGE_WORDS].first[word % SA_MIXED_PAGE_WORDS];
}

SA_INLINE uint64_t *sa_mixed_last(struct sa_mixed_page *pages, size_t word)
{
    return &pages[word / SA_MIXED_PAGE_WORDS].last[word % SA_MIXED_PAGE_WORDS];
}

/* Enters a block, or removes it. */
SA_INLINE void sa_mixed_mark(struct sa_mixed_page *pages, size_t unit, size_t units)
{
    size_t end = unit + units - 1;

    uint64_t *first = sa_mixed_first(pages, unit / 64), *last = sa_mixed_last(pages, end / 64);

    sa_store_relaxed(first, *first ^ 1ull << unit % 64);
    sa_store_relaxed(last, *last ^ 1ull << end % 64);
}

/* Returns the first unit from `from` on where a block begins; `units` if there is none. */
static inline size_t sa_mixed_next_first(struct sa_mixed_page *pages, size_t units, size_t from)
{
    size_t w = from / 64;
    uint64_t word;

    if (from >= units)
        return units;
    word = *sa_mixed_first(pages, w) & ~0ull << from % 64;
    while (!word && ++w < units / 64)
        word = *sa_mixed_first(pages, w);
    return word ? w * 64 + sa_lowest_bit(word) : units;
}

/* The same for where a block ends. */
static inline size_t sa_mixed_next_last(struct sa_mixed_page *pages, size_t units, size_t from)
{
    size_t w = from / 64;
    uint64_t word;

    if (from >= units)
        return units;
    word = sa_load_relaxed(sa_mixed_last(pages, w)) & ~0ull << from % 64;
    while (!word && ++w < units / 64)
        word = sa_load_relaxed(sa_mixed_last(pages, w));
    return word ? w * 64 + sa_lowest_bit(word) : units;
}

/* Returns the unit behind the last block that ends below `to`; 0 if there is none. */
static inline size_t sa_mixed_end_before(struct sa_mixed_page *pages, size_t to)
{
    size_t w = to / 64;
    uint64_t word = to % 64 ? *sa_mixed_last(pages, w) & ~(~0ull << to % 64) : 0;

    while (!word && w)
        word = *sa_mixed_last(pages, --w);
    return word ? w * 64 + sa_log2(word) + 1 : 0;
}

/* Returns whether a block begins at a unit. Safe without the lock, as sa_mixed_length is. */
SA_INLINE bool sa_mixed_is_first(struct sa_mixed_page *pages, size_t unit)
{
    uint64_t word = sa_load_relaxed(sa_mixed_first(pages, unit / 64));

    return word >> unit % 64 & 1;
}

/* Returns the length of the block that begins at a unit; 0: none does. Safe without the lock: for a
 * block that the caller does not own, the result may mean nothing. */
static inline size_t sa_mixed_length(struct sa_mixed_page *pages, size_t units, size_t unit)
{
    size_t end;

    if (unit >= units || !sa_mixed_is_first(pages, unit))
        return 0;
    end = sa_mixed_next_last(pages, units, unit);
    return end < units ? end + 1 - unit : 0;
}

/* Returns the units of a word at which a free run of the span begins. No walk leads there: before a
 * run is the end of a block, or the span begins. */
SA_INLINE uint64_t sa_mixed_run_begins(struct sa_mixed_page *pages, size_t word)
{
    uint64_t before = word ? *sa_mixed_last(pages, word - 1) >> 63 : 1;

    return (*sa_mixed_last(pages, word) << 1 | before) & ~*sa_mixed_first(pages, word);
}

/* Whether a page has a part of a block, where `inside` says whether a block goes on into it. */
static inline bool sa_mixed_page_is_used(const struct sa_mixed_page *page, bool *inside)
{
    size_t first = 0, last = 0; /* the last ones, plus 1; 0: none */
    bool used = *inside;

    for (size_t w = 0; w < SA_MIXED_PAGE_WORDS; w++) {
        if (page->first[w])
            first = w * 64 + sa_log2(page->first[w]) + 1;
        if (page->last[w])
            last = w * 64 + sa_log2(page->last[w]) + 1;
    }
    if (first || last)
        *inside = first > last;
    return used || first || last;
}

/* Bins of free runs: one for each length below 8 units, then eight for each doubling. */
#define SA_MIXED_BINS      136
#define SA_MIXED_BIN_STEPS 8
#define SA_MIXED_BIN_WORDS ((SA_MIXED_BINS + 63) / 64)

/* Returns the bin of a length. */
SA_INLINE unsigned sa_mixed_bin_of(size_t units)
{
    unsigned shift;

    if (units < SA_MIXED_BIN_STEPS)
        return (unsigned)units;
    shift = sa_log2(units) - 3;
    return SA_MIXED_BIN_STEPS * (shift + 1) + (unsigned)(units >> shift) - SA_MIXED_BIN_STEPS;
}

/* Returns the first bin whose runs all have a length. */
SA_INLINE unsigned sa_mixed_bin_from(size_t units)
{
    return units <= SA_MIXED_BIN_STEPS ? (unsigned)units : sa_mixed_bin_of(units - 1) + 1;
}

/* Returns the first bin from `bin` on whose bit is set in `filled`; SA_MIXED_BINS: there is none.
 */
static inline unsigned sa_mixed_bin_next(const uint64_t *filled, unsigned bin)
{
    for (unsigned w = bin / 64; w < SA_MIXED_BIN_WORDS; w++) {
        uint64_t word = filled[w] & (w == bin / 64 ? ~0ull << bin % 64 : ~0ull);

        if (word)
            return w * 64 + sa_lowest_bit(word);
    }
    return SA_MIXED_BINS;
}

/* A walk over the free runs, in the order of addresses. Blocks may be entered into the run that was
 * found last. */
struct sa_mixed_walk {
    struct sa_mixed_page *pages;
    size_t units;
    size_t begin, end; /* the run */
    size_t next;       /* the word that comes next */
    uint64_t occupied; /* the word before it */
    uint64_t carry, borrow;
};

/* Computes the next word; false: there is none. */
SA_INLINE bool sa_mixed_step(struct sa_mixed_walk *r)
{
    uint64_t last, ends, begins;

    if (r->next == r->units / 64)
        return false;
    last = *sa_mixed_last(r->pages, r->next);
    ends = last << 1 | r->carry;
    begins = *sa_mixed_first(r->pages, r->next);
    r->occupied = ends - begins - r->borrow;
    r->borrow = ends < begins || (ends == begins && r->borrow);
    r->carry = last >> 63;
    r->next++;
    return true;
}

/* Finds the next run. At first, all but pages and units is 0. False: there is none. */
static inline bool sa_mixed_run(struct sa_mixed_walk *r)
{
    size_t at = r->end;
    uint64_t word;

    if (!r->next && !sa_mixed_step(r))
        return false;
    if (at >= r->next * 64 && !sa_mixed_step(r))
        return false;
    word = ~r->occupied & ~0ull << at % 64;
    while (!word) {
        if (!sa_mixed_step(r))
            return false;
        word = ~r->occupied;
    }
    r->begin = (r->next - 1) * 64 + sa_lowest_bit(word);
    word = r->occupied & ~0ull << r->begin % 64;
    while (!word) {
        if (!sa_mixed_step(r)) {
            r->end = r->units;
            return true;
        }
        word = r->occupied;
    }
    r->end = (r->next - 1) * 64 + sa_lowest_bit(word);
    return true;
}

#endif
