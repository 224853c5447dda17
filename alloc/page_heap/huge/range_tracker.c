/* SPDX-License-Identifier: Apache-2.0 */
/* Bitmaps of pages; see range_tracker.h. */
#include "alloc/page_heap/huge/range_tracker.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

uint32_t sa_bits_next(const uint64_t *words, uint32_t bits, uint32_t from, bool set)
{
    uint64_t flip = set ? 0 : ~0ull, word;
    uint32_t i = from / 64;

    if (from >= bits)
        return bits;
    word = (words[i] ^ flip) & ~0ull << from % 64;
    while (!word) {
        if (++i == bits / 64)
            return bits;
        word = words[i] ^ flip;
    }
    return i * 64 + sa_lowest_bit(word);
}

/* The part of word i that [at, at + n) covers. */
static uint64_t word_mask(uint32_t i, uint32_t at, uint32_t n)
{
    uint32_t low = i * 64, from = at > low ? at - low : 0, end = at + n - low;

    return (end >= 64 ? ~0ull : (1ull << end) - 1) & ~0ull << from;
}

void sa_bits_fill(uint64_t *words, uint32_t at, uint32_t n, bool set)
{
    for (uint32_t i = at / 64; i * 64 < at + n; i++) {
        uint64_t mask = word_mask(i, at, n);

        words[i] = set ? words[i] | mask : words[i] & ~mask;
    }
}

uint32_t sa_bits_count(const uint64_t *words, uint32_t at, uint32_t n)
{
    uint32_t count = 0;

    for (uint32_t i = at / 64; i * 64 < at + n; i++)
        count += (uint32_t)__builtin_popcountll(words[i] & word_mask(i, at, n));
    return count;
}

void sa_range_init(struct sa_range_tracker *t, uint64_t *words, uint32_t pages)
{
    *t = (struct sa_range_tracker){.words = words, .pages = pages, .longest = pages};
}

long sa_range_alloc(struct sa_range_tracker *t, uint32_t n, uint32_t align)
{
    uint32_t best_at = 0, best = UINT32_MAX, longest = 0, second = 0, best_start = 0, end;

    SA_DCHECK(n > 0);
    SA_DCHECK(align > 0 && (align & (align - 1)) == 0);
    if (n > t->longest)
        return -1;
    for (uint32_t start = sa_bits_next(t->words, t->pages, 0, false); start < t->pages;
         start = sa_bits_next(t->words, t->pages, end, false)) {
        uint32_t length, at = (uint32_t)sa_align_up(start, align);

        end = sa_bits_next(t->words, t->pages, start, true);
        length = end - start;
        if (length > longest) {
            second = longest;
            longest = length;
        } else if (length > second) {
            second = length;
        }
        if (length < best && at + n <= end) {
            best = length;
            best_at = at;
            best_start = start;
        }
    }
    if (best == UINT32_MAX)
        return -1;
    sa_bits_fill(t->words, best_at, n, true);
    t->taken += n;
    t->allocations++;
    if (best == longest) { /* what is left of the run on both sides competes with the others */
        uint32_t before = best_at - best_start, after = best - before - n;

        t->longest = (uint32_t)sa_max(second, sa_max(before, after));
    }
    return best_at;
}

static uint32_t range_longest(const struct sa_range_tracker *t)
{
    uint32_t longest = 0, end;

    for (uint32_t start = sa_bits_next(t->words, t->pages, 0, false); start < t->pages;
         start = sa_bits_next(t->words, t->pages, end, false)) {
        end = sa_bits_next(t->words, t->pages, start, true);
        longest = (uint32_t)sa_max(longest, end - start);
    }
    return longest;
}

void sa_range_take(struct sa_range_tracker *t, uint32_t at, uint32_t n, bool counted)
{
    SA_DCHECK(sa_range_is_free(t, at, n));
    sa_bits_fill(t->words, at, n, true);
    t->taken += n;
    t->allocations += counted;
    t->longest = range_longest(t);
}

void sa_range_take_first(struct sa_range_tracker *t, uint32_t n)
{
    SA_DCHECK(t->taken == 0 && n > 0 && n <= t->pages);
    sa_bits_fill(t->words, 0, n, true);
    t->taken = n;
    t->allocations++;
    t->longest = t->pages - n;
}

/* The start of the free run that ends before at. */
static uint32_t run_start(const struct sa_range_tracker *t, uint32_t at)
{
    uint32_t i = at / 64;
    uint64_t word = at % 64 ? t->words[i] & ((1ull << at % 64) - 1) : 0;

    while (!word) {
        if (i == 0)
            return 0;
        word = t->words[--i];
    }
    return i * 64 + sa_log2(word) + 1;
}

void sa_range_put(struct sa_range_tracker *t, uint32_t at, uint32_t n, bool counted)
{
    uint32_t start, end;

    SA_DCHECK(n > 0 && n <= t->pages && at <= t->pages - n);
    SA_DCHECK(sa_bits_count(t->words, at, n) == n);
    SA_DCHECK(!counted || t->allocations > 0);
    sa_bits_fill(t->words, at, n, false);
    t->taken -= n;
    t->allocations -= counted;
    start = run_start(t, at);
    end = sa_bits_next(t->words, t->pages, at, true);
    t->longest = (uint32_t)sa_max(t->longest, end - start);
}

bool sa_range_is_free(const struct sa_range_tracker *t, uint32_t at, uint32_t n)
{
    return n <= t->pages && at <= t->pages - n && sa_bits_count(t->words, at, n) == 0;
}
