/* SPDX-License-Identifier: Apache-2.0 */
/* Packing spans across hugepages; see huge_region.h. */
#include "alloc/page_heap/huge/huge_region.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

/* A hugepage with fewer free pages than this is a candidate for a collapse. */
#define REGION_NEARLY_FULL 16
#define REGION_LOOKS       3

void sa_huge_region_init(struct sa_huge_region *r, size_t hugepage, uint64_t now_ns)
{
    SA_DCHECK(sa_bits_next(r->words, SA_REGION_PAGES, 0, true) == SA_REGION_PAGES);
    r->hugepage = hugepage;
    r->unbacked_pages = SA_REGION_PAGES;
    for (size_t h = 0; h < SA_REGION_HUGEPAGES; h++) {
        r->since_ns[h] = now_ns;
        r->unbacked_in[h] = SA_HUGE_PAGES;
    }
    sa_bits_fill(r->unbacked, 0, SA_REGION_PAGES, true);
    sa_range_init(&r->range, r->words, SA_REGION_PAGES);
}

/* Marks the unbacked ones of n pages of hugepage h as backed. */
static void region_uncover(struct sa_huge_region *r, uint32_t h, uint32_t at, uint32_t n)
{
    uint32_t unbacked = sa_bits_count(r->unbacked, at, n);

    SA_DCHECK(r->unbacked_in[h] >= unbacked && r->unbacked_pages >= unbacked);
    sa_bits_fill(r->unbacked, at, n, false);
    r->unbacked_in[h] = (uint16_t)(r->unbacked_in[h] - unbacked);
    r->unbacked_pages -= unbacked;
}

/* Counts n pages as taken, for each of their hugepages. */
static void region_take(struct sa_huge_region *r, uint32_t at, uint32_t n, bool eager)
{
    for (uint32_t end = at + n, next; at < end; at = next) {
        uint32_t h = at / SA_HUGE_PAGES;

        next = (uint32_t)sa_min(end, (h + 1) * SA_HUGE_PAGES);
        r->taken[h] = (uint16_t)(r->taken[h] + (next - at));
        if (eager && r->unbacked_in[h] == SA_HUGE_PAGES)
            region_uncover(r, h, h * SA_HUGE_PAGES, SA_HUGE_PAGES);
        else if (r->unbacked_in[h])
            region_uncover(r, h, at, next - at);
    }
}

struct sa_region_place sa_huge_region_find(struct sa_huge_region *r, uint32_t n, uint32_t align,
                                           bool eager)
{
    struct sa_region_place place = {.at = sa_range_alloc(&r->range, n, align), .n = n};
    uint32_t at = (uint32_t)place.at, unbacked = 0;

    if (place.at < 0)
        return place;
    for (uint32_t end = at + n, next; at < end; at = next) {
        uint32_t h = at / SA_HUGE_PAGES, count;

        next = (uint32_t)sa_min(end, (h + 1) * SA_HUGE_PAGES);
        count = r->unbacked_in[h] ? sa_bits_count(r->unbacked, at, next - at) : 0;
        unbacked += count;
        place.grows += eager && r->unbacked_in[h] == SA_HUGE_PAGES ? SA_HUGE_PAGES : count;
    }
    place.zero = unbacked == n;
    return place;
}

void sa_huge_region_commit(struct sa_huge_region *r, const struct sa_region_place *place,
                           bool eager)
{
    region_take(r, (uint32_t)place->at, place->n, eager);
}

void sa_huge_region_cancel(struct sa_huge_region *r, const struct sa_region_place *place)
{
    sa_range_put(&r->range, (uint32_t)place->at, place->n, true);
}

bool sa_huge_region_extend(struct sa_huge_region *r, uint32_t at, uint32_t n, bool eager)
{
    if (!sa_range_is_free(&r->range, at, n))
        return false;
    sa_range_take(&r->range, at, n, false);
    region_take(r, at, n, eager);
    return true;
}

void sa_huge_region_put(struct sa_huge_region *r, uint32_t at, uint32_t n, bool counted,
                        uint64_t now_ns)
{
    sa_range_put(&r->range, at, n, counted);
    for (uint32_t end = at + n, next; at < end; at = next) {
        uint32_t h = at / SA_HUGE_PAGES;

        next = (uint32_t)sa_min(end, (h + 1) * SA_HUGE_PAGES);
        SA_DCHECK(r->taken[h] >= next - at);
        r->taken[h] = (uint16_t)(r->taken[h] - (next - at));
        r->since_ns[h] = now_ns;
    }
}

bool sa_huge_region_begin(struct sa_huge_region *r, uint32_t min, struct sa_region_release *ret)
{
    uint32_t best = 0, max = 0;
    uint64_t *words, *unbacked;

    for (uint32_t h = 0; h < SA_REGION_HUGEPAGES; h++) {
        uint32_t backed = SA_HUGE_PAGES - r->taken[h] - r->unbacked_in[h];

        if (backed > max && (backed >= min || r->taken[h] == 0)) {
            max = backed;
            best = h;
        }
    }
    if (!max)
        return false;
    ret->index = best;
    ret->pages = max;
    ret->empty = r->taken[best] == 0;
    words = &r->words[best * SA_HUGE_PAGES / 64];
    unbacked = &r->unbacked[best * SA_HUGE_PAGES / 64];
    for (uint32_t i = 0; i < SA_HUGE_PAGES / 64; i++) {
        ret->mask[i] = ~words[i] & ~unbacked[i];
        words[i] |= ret->mask[i];
    }
    r->looks[best] = 0;
    r->taken[best] = (uint16_t)(r->taken[best] + max);
    r->moving_pages += max;
    r->range.taken += max;
    sa_range_take(&r->range, 0, 0, false); /* finds the longest run anew */
    return true;
}

void sa_huge_region_end(struct sa_huge_region *r, const struct sa_region_release *release,
                        const uint64_t *done, uint64_t now_ns)
{
    uint32_t h = release->index, released = 0;
    uint64_t *words = &r->words[h * SA_HUGE_PAGES / 64];
    uint64_t *unbacked = &r->unbacked[h * SA_HUGE_PAGES / 64];

    SA_DCHECK(r->moving_pages >= release->pages && r->taken[h] >= release->pages);
    for (uint32_t i = 0; i < SA_HUGE_PAGES / 64; i++) {
        SA_DCHECK((release->mask[i] & ~words[i]) == 0);
        SA_DCHECK((done[i] & ~release->mask[i]) == 0);
        words[i] &= ~release->mask[i];
        unbacked[i] |= done[i];
        released += (uint32_t)__builtin_popcountll(done[i]);
    }
    r->taken[h] = (uint16_t)(r->taken[h] - release->pages);
    r->unbacked_in[h] = (uint16_t)(r->unbacked_in[h] + released);
    r->unbacked_pages += released;
    r->moving_pages -= release->pages;
    r->range.taken -= release->pages;
    r->since_ns[h] = now_ns;
    sa_range_take(&r->range, 0, 0, false);
}

uint32_t sa_huge_region_next_full(const struct sa_huge_region *r, uint32_t from)
{
    uint32_t h = from;

    SA_DCHECK(from <= SA_REGION_HUGEPAGES);
    while (h < SA_REGION_HUGEPAGES &&
           (r->taken[h] <= SA_HUGE_PAGES - REGION_NEARLY_FULL || r->looks[h] >= REGION_LOOKS))
        h++;
    return h;
}

void sa_huge_region_looked(struct sa_huge_region *r, uint32_t index, bool made)
{
    r->looks[index] = made ? REGION_LOOKS : r->looks[index] + 1u;
    if (made && r->unbacked_in[index])
        region_uncover(r, index, index * SA_HUGE_PAGES, SA_HUGE_PAGES);
}

size_t sa_huge_region_backed(const struct sa_huge_region *r)
{
    return SA_REGION_PAGES - r->range.taken - r->unbacked_pages;
}

void sa_huge_region_report(const struct sa_huge_region *r, struct sa_huge_region_stats *ret,
                           struct sa_span_ages *ages, uint64_t now_ns)
{
    uint32_t end, taken_at;

    ret->regions++;
    ret->hugepages += SA_REGION_HUGEPAGES;
    for (uint32_t h = 0; h < SA_REGION_HUGEPAGES; h++)
        ret->backed_hugepages += r->unbacked_in[h] < SA_HUGE_PAGES;
    ret->used_pages += r->range.taken - r->moving_pages;
    ret->free_pages += sa_huge_region_backed(r);
    ret->unmapped_pages += r->unbacked_pages;
    /* Free runs, cut where memory begins or ends. */
    for (uint32_t at = sa_bits_next(r->words, SA_REGION_PAGES, 0, false); at < SA_REGION_PAGES;
         at = sa_bits_next(r->words, SA_REGION_PAGES, end, false)) {
        bool unbacked = r->unbacked[at / 64] >> at % 64 & 1;

        taken_at = sa_bits_next(r->words, SA_REGION_PAGES, at, true);
        end = sa_bits_next(r->unbacked, (uint32_t)sa_align_up(taken_at, 64), at, !unbacked);
        end = (uint32_t)sa_min(taken_at, end);
        sa_span_ages_add(unbacked ? ages->released : ages->backed, end - at,
                         sa_span_ages_idle(now_ns - r->since_ns[at / SA_HUGE_PAGES]));
    }
}

size_t sa_huge_regions_count_backed(const struct sa_huge_region *first)
{
    size_t pages = 0;

    for (const struct sa_huge_region *r = first; r; r = r->next)
        pages += sa_huge_region_backed(r);
    return pages;
}
