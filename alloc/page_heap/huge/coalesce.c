/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coalescing: ranges that are partly cached and partly unbacked, for large spans. A program whose
 * large blocks differ in size seldom finds one cached in one piece. The kernel would have to back
 * all of a fresh range, while the cached pieces stay unused.
 *
 * Not under a limit, which depends on what is unbacked; and not for a request that wants zero
 * pages, because a fresh range is zero already.
 *
 * What falls without it (doc/perf_findings.md): for a program that replaces
 * five blocks of 8 to 64 MiB at random, the kernel finds 7 of 100 pages instead of 2. That program
 * is a loop of its own; no other is known.
 */
#include "alloc/page_heap/huge/coalesce.h"

#include "alloc/base/bits.h"
#include "alloc/page_heap/account/limits.h"
#include "alloc/page_heap/huge/huge_heap_internal.h"

#define LOOKS  32 /* cached ranges that a search looks at */
#define PIECES 64 /* pieces of one coalesced range */

/* The end of the piece of [at, end) that belongs to one range; `at` if that hugepage is not free.
 */
static size_t piece_end(const struct sa_huge_heap *h, size_t at, size_t end, bool *ret_cached)
{
    const struct sa_huge_node *node = sa_huge_map_find(&h->cache.map, at);

    *ret_cached = node != NULL;
    if (!node)
        node = sa_huge_map_find(&h->released, at);
    return node ? sa_min(node->start + node->length, end) : at;
}

/* How many of the n hugepages are cached. 0 if some are not free, or if they lie in more than
 * PIECES pieces. */
static size_t cached_in(const struct sa_huge_heap *h, size_t start, size_t n)
{
    size_t sum = 0, next;
    int pieces = 0;
    bool cached;

    for (size_t at = start; at < start + n; at = next) {
        next = piece_end(h, at, start + n, &cached);
        if (next == at || ++pieces > PIECES)
            return 0;
        sum += cached ? next - at : 0;
    }
    return sum;
}

/* Takes n hugepages, all of which are free. Returns whether the last of them is unbacked. Ranges
 * are taken whole, except for those at both ends, of which a part may stay: no node is needed. */
static bool take_pieces(struct sa_huge_heap *h, size_t start, size_t n)
    SA_REQUIRES(SA_RANK_PAGE_HEAP)
{
    size_t next;
    bool cached = false;

    for (size_t at = start; at < start + n; at = next) {
        next = piece_end(h, at, start + n, &cached);
        if (cached) {
            sa_huge_cache_take_part(&h->cache, at, next - at);
        } else {
            sa_huge_map_take_at(&h->released, &h->nodes, at, next - at);
            if (h->choice != SA_HUGEPAGES_AUTO ||
                h->thp != SA_THP_MADVISE) /* else the advice that stands may stay */
                sa_huge_heap_advise_for(h, at, (next - at) * SA_HUGE_PAGES, SA_USE_LARGE);
        }
    }
    return !cached;
}

size_t sa_huge_heap_coalesce(struct sa_huge_heap *h, size_t n, bool *ret_last_fresh)
{
    const struct sa_huge_node *node = sa_huge_map_from(&h->cache.map, 0);
    size_t best = SA_HUGE_NONE, max = n / 2; /* more cached than unbacked */

    if (sa_limits_active() || h->cache.map.hugepages <= max)
        return SA_HUGE_NONE;
    for (int looks = 0; node && looks < LOOKS; looks++) {
        size_t end = node->start + node->length, starts[2] = {node->start, end > n ? end - n : end};

        for (int i = 0; i < 2; i++) {
            size_t cached = cached_in(h, starts[i], n);

            if (cached > max) {
                max = cached;
                best = starts[i];
            }
        }
        node = sa_huge_map_from(&h->cache.map, end);
    }
    if (best != SA_HUGE_NONE)
        *ret_last_fresh = take_pieces(h, best, n);
    return best;
}

bool sa_huge_heap_coalesce_at(struct sa_huge_heap *h, size_t start, size_t n, bool *ret_last_fresh)
{
    if (sa_limits_active() || !cached_in(h, start, n))
        return false;
    *ret_last_fresh = take_pieces(h, start, n);
    return true;
}
