/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page heap of the model (model.h): hugepages whose pages are in use, free and backed, or
 * released.
 *
 * A request goes to the hugepage whose longest free run is the shortest that serves, of these to
 * the fullest; to one that has released pages only if no other serves; then to a free hugepage. As
 * in the filler, spans of many objects do not share hugepages with others. Blocks longer than a
 * hugepage are counts of pages.
 *
 * Left out: regions, hugepages that are kept for predicted demand, refaults, transparent hugepages.
 */
#include "perf/fragmentation/model.h"

#include <string.h>

#define WORDS   (HUGE_PAGES / 64)
#define HUGES   (PAGES_MAX / HUGE_PAGES)
#define LEAN_MS 1000

/* As in huge_heap_release.c. */
#define EXCESS_PAGES ((48ul << 20) / SA_PAGE_BYTES)
#define TICK_KEEP    ((1ul << 20) / SA_PAGE_BYTES)
#define TICKS_LONG   4 /* 2 s */

struct huge {
    uint64_t used[WORDS], backed[WORDS];
    uint16_t used_pages, free_pages; /* free and backed */
    uint16_t longest;                /* free run */
    bool dense, broken;              /* broken: free pages were released */
};

static struct huge huges[HUGES];
static size_t count;
static uint64_t lean_until;
static size_t low_water, low_water_long, large_low;

struct pages_totals pages;

static bool bit(const uint64_t *words, size_t i)
{
    return words[i / 64] >> i % 64 & 1;
}

static void measure(struct huge *h)
{
    size_t longest = 0, run = 0;

    for (size_t w = 0; w < WORDS; w++) {
        uint64_t word = h->used[w];

        if (!word || !~word) {
            run = word ? 0 : run + 64;
            longest = sa_max(longest, run);
            continue;
        }
        for (size_t i = 0; i < 64; i++) {
            run = word >> i & 1 ? 0 : run + 1;
            longest = sa_max(longest, run);
        }
    }
    h->longest = (uint16_t)longest;
}

/* Counts the free backed pages of a hugepage as `between`, or no longer. */
static void count_between(const struct huge *h, bool add)
{
    if (h->used_pages)
        pages.between += add ? h->free_pages : -(size_t)h->free_pages;
}

/* Returns the first free run of n pages at a multiple of `align`; HUGE_PAGES: there is none. */
static size_t find_run(const struct huge *h, size_t n, size_t align)
{
    for (size_t at = 0; at + n <= HUGE_PAGES; at += align) {
        size_t i = 0;

        while (i < n && !bit(h->used, at + i))
            i++;
        if (i == n)
            return at;
    }
    return HUGE_PAGES;
}

/* Returns the hugepage that a request goes to. */
static struct huge *choose(size_t n, size_t align, bool dense, size_t *ret_at)
{
    struct huge *best = NULL, *empty = NULL;

    for (struct huge *h = huges; h < huges + count; h++) {
        size_t at;

        if (!h->used_pages) {
            if (!empty || h->free_pages > empty->free_pages)
                empty = h;
            continue;
        }
        if (h->longest < n || h->dense != dense)
            continue;
        if (best && (h->broken > best->broken ||
                     (h->broken == best->broken &&
                      (h->longest > best->longest ||
                       (h->longest == best->longest && h->used_pages <= best->used_pages)))))
            continue;
        at = find_run(h, n, align);
        if (at == HUGE_PAGES)
            continue;
        best = h;
        *ret_at = at;
    }
    if (best)
        return best;
    if (!empty) {
        MODEL_CHECK(count < HUGES);
        empty = &huges[count++];
        empty->longest = HUGE_PAGES;
    }
    empty->dense = dense;
    empty->broken = false;
    *ret_at = 0;
    return empty;
}

uint32_t pages_take(size_t n, size_t align, bool dense)
{
    size_t at = 0;
    struct huge *h = choose(n, align, dense, &at);

    count_between(h, false);
    for (size_t i = at; i < at + n; i++) {
        h->used[i / 64] |= 1ull << i % 64;
        if (bit(h->backed, i)) {
            h->free_pages--;
            pages.free--;
        }
        h->backed[i / 64] |= 1ull << i % 64;
    }
    h->used_pages = (uint16_t)(h->used_pages + n);
    count_between(h, true);
    pages.used += n;
    measure(h);
    low_water = sa_min(low_water, pages.free);
    low_water_long = sa_min(low_water_long, pages.free);
    return (uint32_t)((size_t)(h - huges) * HUGE_PAGES + at);
}

/* Releases the free pages of a hugepage; how many. */
static size_t release(struct huge *h)
{
    size_t n = h->free_pages;

    count_between(h, false);
    for (size_t w = 0; w < WORDS; w++)
        h->backed[w] &= h->used[w];
    h->free_pages = 0;
    h->broken = h->used_pages != 0;
    pages.free -= n;
    pages.releases++;
    return n;
}

static bool is_lean(void)
{
    return now_ms < lean_until;
}

/* Returns the hugepage to release pages of: a free one, or the emptiest that has enough. */
static struct huge *release_next(bool by_time)
{
    double bytes = is_lean() && !by_time ? params.break_lean_bytes : params.break_bytes;
    struct huge *best = NULL;

    for (struct huge *h = huges; h < huges + count; h++) {
        size_t least = (size_t)bytes / SA_PAGE_BYTES;

        if (h->broken)
            least = by_time ? 1 : 2 * least;
        if (!h->free_pages || (h->used_pages && h->free_pages < least))
            continue;
        if (!best || h->used_pages < best->used_pages)
            best = h;
    }
    return best;
}

static void release_pages(size_t n, bool by_time)
{
    struct huge *h;
    size_t large = sa_min(n, pages.large_free);

    pages.large_free -= large;
    for (size_t done = large; done < n && (h = release_next(by_time)) != NULL;)
        done += release(h);
}

static void release_surplus(void)
{
    size_t used = pages.used + pages.large, backed = pages.free + pages.large_free;
    size_t keep = sa_max(EXCESS_PAGES, used / 4) + sa_min(pages.between, used);

    keep = sa_min(keep, sa_max((size_t)params.keep_bytes / SA_PAGE_BYTES,
                               (size_t)((double)used * params.keep)));
    if (is_lean())
        keep = sa_min(keep, sa_max((size_t)params.keep_lean_bytes / SA_PAGE_BYTES,
                                   (size_t)((double)used * params.keep_lean)));
    if (backed > keep)
        release_pages(backed - keep, false);
}

void pages_put(uint32_t first, size_t n)
{
    struct huge *h = &huges[first / HUGE_PAGES];

    count_between(h, false);
    for (size_t i = first % HUGE_PAGES; i < first % HUGE_PAGES + n; i++) {
        MODEL_CHECK(bit(h->used, i) && bit(h->backed, i));
        h->used[i / 64] &= ~(1ull << i % 64);
    }
    h->used_pages = (uint16_t)(h->used_pages - n);
    h->free_pages = (uint16_t)(h->free_pages + n);
    pages.used -= n;
    pages.free += n;
    count_between(h, true);
    measure(h);
    release_surplus();
}

void pages_take_large(size_t n)
{
    pages.large += n;
    pages.large_free -= sa_min(pages.large_free, n);
    large_low = sa_min(large_low, pages.large_free);
}

void pages_put_large(size_t n)
{
    pages.large -= n;
    pages.large_free += n;
    release_surplus();
}

void pages_lean(void)
{
    lean_until = now_ms + LEAN_MS;
}

void pages_tick(void)
{
    static unsigned ticks;
    size_t idle = sa_min(low_water, pages.free), keep = TICK_KEEP;

    release_pages(sa_min(large_low, pages.large_free) / 4, true);
    large_low = pages.large_free;
    release_pages(idle / 4, true);
    low_water = pages.free;
    if (++ticks % TICKS_LONG == 0) {
        idle = sa_min(low_water_long, pages.free);
        release_pages(idle > keep ? idle - keep : 0, true);
        low_water_long = pages.free;
    }
}

void pages_check(void)
{
    size_t used = 0, free = 0, between = 0;

    for (struct huge *h = huges; h < huges + count; h++) {
        size_t h_used = 0, h_backed = 0;

        for (size_t w = 0; w < WORDS; w++) {
            MODEL_CHECK((h->used[w] & ~h->backed[w]) == 0);
            h_used += (size_t)__builtin_popcountll(h->used[w]);
            h_backed += (size_t)__builtin_popcountll(h->backed[w]);
        }
        MODEL_CHECK(h_used == h->used_pages && h_backed - h_used == h->free_pages);
        used += h_used;
        free += h_backed - h_used;
        between += h_used ? h_backed - h_used : 0;
    }
    MODEL_CHECK(used == pages.used && free == pages.free && between == pages.between);
}
