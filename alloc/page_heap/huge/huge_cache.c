/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of backed hugepages; see huge_cache.h.
 *
 * What falls without its memories of demand (doc/perf_findings.md):
 * - demand_range: "what is kept beyond the bound". A program that replaces 100 blocks of 32 KiB to
 *   4 MiB at random would release 1/8 of all pages and find them again.
 * - retaken: "demand that was reached four times". A loop that allocates, fills and frees 64 MiB
 *   takes 30 ms a turn instead of 2 ms.
 * - low_water: no row. Ticks release what the mark says was unneeded, so that release by time does
 *   not take what the program uses.
 * The programs of the first two rows are loops of their own; no other program is known.
 */
#include "alloc/page_heap/huge/huge_cache.h"

#include "alloc/base/bits.h"
#include "alloc/base/fatal.h"

/* A hugepage that came back and was taken AGAIN_TIMES times is likely to be taken again. More than
 * AGAIN_MAX times are not counted, so that the count decays soon. */
#define AGAIN_TIMES 4
#define AGAIN_MAX   8

void sa_huge_cache_init(struct sa_huge_cache *c, struct sa_huge_nodes *nodes)
{
    c->nodes = nodes;
    c->limit = SA_HUGE_CACHE_MIN;
    c->ceiling = SIZE_MAX;
    c->usage_s.slot_ns = SA_HUGE_CACHE_NS / 4;
    c->usage_min.slot_ns = SA_HUGE_CACHE_REPORT_NS / SA_SLIDING_WINDOW_SLOTS;
    c->off_peak_min.slot_ns = c->usage_min.slot_ns;
    c->size_min.slot_ns = c->usage_min.slot_ns;
}

static void cache_note_size(struct sa_huge_cache *c)
{
    c->min_size = sa_min(c->min_size, c->map.hugepages);
    c->low_water = sa_min(c->low_water, c->map.hugepages);
    sa_sliding_window_add(&c->size_min, c->map.hugepages);
}

/* Adds up the area under the curve of the cache's size; called before each change of the size. */
static void cache_integrate(struct sa_huge_cache *c)
{
    if (c->now_ns == c->cached_since_ns)
        return;
    c->cached_hp_s += (double)c->map.hugepages * ((double)(c->now_ns - c->cached_since_ns) * 1e-9);
    c->cached_since_ns = c->now_ns;
}

static void cache_set_usage(struct sa_huge_cache *c, size_t usage)
{
    c->usage = usage;
    c->peak = sa_max(c->peak, usage);
    sa_sliding_window_add(&c->usage_s, usage);
    sa_sliding_window_add(&c->usage_min, usage);
    sa_sliding_window_add(&c->off_peak_min, c->peak - usage);
}

static void cache_forget(struct sa_huge_cache *c, uint64_t now_ns)
{
    while (c->retaken && now_ns - c->retaken_ns >= SA_HUGE_CACHE_AGAIN_NS) {
        c->retaken /= 2;
        c->retaken_ns += SA_HUGE_CACHE_AGAIN_NS;
    }
    if (!c->retaken)
        c->retaken_ns = now_ns;
}

void sa_huge_cache_tick(struct sa_huge_cache *c, uint64_t now_ns)
{
    SA_DCHECK(now_ns >= c->now_ns);
    cache_integrate(c);
    cache_forget(c, now_ns);
    if (c->now_ns == 0) { /* time begins */
        c->cached_since_ns = now_ns;
        c->limit_changed_ns = now_ns;
    }
    c->now_ns = now_ns;
    cache_integrate(c);
    sa_sliding_window_advance(&c->usage_s, now_ns);
    c->peak = sa_sliding_window_max(&c->usage_s, SA_HUGE_CACHE_NS);
    sa_sliding_window_advance(&c->usage_min, now_ns);
    sa_sliding_window_advance(&c->off_peak_min, now_ns);
    sa_sliding_window_advance(&c->size_min, now_ns);
    cache_set_usage(c, c->usage);
    cache_note_size(c);
}

static void cache_set_limit(struct sa_huge_cache *c, size_t limit)
{
    SA_DCHECK(limit >= SA_HUGE_CACHE_MIN);
    c->limit = limit;
    c->limit_changed_ns = c->now_ns;
    c->min_size = c->map.hugepages;
}

/* After a miss. The request would have been a hit if the cache had kept the amount by which usage
 * fell before and rose since. The limit says how many hugepages are worth keeping at all. The
 * demand range says how many are kept although others are free elsewhere. */
static void cache_grow_limit(struct sa_huge_cache *c)
{
    size_t fell = sa_sliding_window_max(&c->off_peak_min, SA_HUGE_CACHE_NS);
    size_t rose = c->usage - sa_sliding_window_min(&c->usage_s, SA_HUGE_CACHE_NS);
    size_t limit = sa_min(fell, rose);

    c->demand_range = sa_max(c->demand_range, limit);
    limit += limit / 10;
    if (limit > c->limit)
        cache_set_limit(c, limit);
}

size_t sa_huge_cache_take(struct sa_huge_cache *c, size_t n, size_t align)
{
    size_t start;

    cache_integrate(c);
    start = sa_huge_map_take(&c->map, c->nodes, n, align);
    c->retaken = sa_min(c->retaken + sa_min(n, c->peak - c->usage), AGAIN_MAX * c->peak);
    cache_set_usage(c, c->usage + n);
    if (start != SA_HUGE_NONE) {
        c->stats.hits++;
        cache_note_size(c);
    } else {
        c->stats.misses++;
        cache_grow_limit(c);
    }
    return start;
}

SA_RARE void sa_huge_cache_unuse(struct sa_huge_cache *c, size_t n)
{
    SA_DCHECK(n <= c->usage);
    cache_set_usage(c, c->usage - n);
}

SA_RARE void sa_huge_cache_use(struct sa_huge_cache *c, size_t n)
{
    cache_set_usage(c, c->usage + n);
}

SA_RARE bool sa_huge_cache_take_part(struct sa_huge_cache *c, size_t start, size_t n)
{
    cache_integrate(c);
    if (!sa_huge_map_take_at(&c->map, c->nodes, start, n))
        return false;
    cache_note_size(c);
    return true;
}

SA_RARE bool sa_huge_cache_take_at(struct sa_huge_cache *c, size_t start, size_t n)
{
    if (!sa_huge_cache_take_part(c, start, n))
        return false;
    cache_set_usage(c, c->usage + n);
    return true;
}

SA_RARE void sa_huge_cache_restore(struct sa_huge_cache *c, size_t start, size_t n)
{
    cache_integrate(c);
    sa_huge_map_insert(&c->map, c->nodes, start, n, c->now_ns);
    cache_note_size(c);
}

SA_RARE void sa_huge_cache_put(struct sa_huge_cache *c, size_t start, size_t n)
{
    SA_DCHECK(n <= c->usage);
    sa_huge_cache_restore(c, start, n);
    cache_set_usage(c, c->usage - n);
    c->stats.stored++;
    c->stats.overflows += sa_huge_cache_surplus(c) != 0;
}

SA_RARE size_t sa_huge_cache_surplus(struct sa_huge_cache *c)
{
    size_t keep = sa_min(c->limit, c->ceiling);

    return c->map.hugepages > keep ? c->map.hugepages - keep : 0;
}

SA_RARE size_t sa_huge_cache_needed(const struct sa_huge_cache *c)
{
    SA_DCHECK(c->peak >= c->usage);
    return sa_min(sa_min(c->demand_range, c->peak - c->usage), c->map.hugepages);
}

SA_RARE bool sa_huge_cache_comes_again(const struct sa_huge_cache *c)
{
    return c->retaken / AGAIN_TIMES >= sa_min(c->demand_range, c->peak - c->usage);
}

/* Halves the demand range, but not below the demand range that usage still goes through repeatedly:
 * then nothing is missing. */
static void cache_forget_range(struct sa_huge_cache *c)
{
    size_t swung = 0;

    if (c->retaken / AGAIN_TIMES >= c->demand_range)
        swung = sa_sliding_window_max(&c->usage_s, SA_HUGE_CACHE_SHRINK_NS) -
                sa_sliding_window_min(&c->usage_s, SA_HUGE_CACHE_SHRINK_NS);
    c->demand_range = sa_max(c->demand_range / 2, sa_min(c->demand_range, swung));
}

void sa_huge_cache_shrink(struct sa_huge_cache *c)
{
    if (c->now_ns - c->limit_changed_ns < SA_HUGE_CACHE_SHRINK_NS)
        return;
    cache_forget_range(c);
    if (c->min_size >= c->limit / 5)
        cache_set_limit(
            c, sa_max(c->limit - sa_min(c->limit, sa_max(c->min_size / 2, 1)), SA_HUGE_CACHE_MIN));
    else
        cache_set_limit(c, c->limit);
}

SA_RARE size_t sa_huge_cache_evict(struct sa_huge_cache *c, size_t n, size_t *ret_start)
{
    const struct sa_huge_node *node = sa_huge_map_shortest(&c->map);
    size_t start, max;

    if (!node || n == 0)
        return 0;
    /* From the end of the range: the rest still begins where it began, and serves the next
     * request. */
    max = sa_min(n, node->length);
    start = node->start + node->length - max;
    cache_integrate(c);
    sa_huge_map_take_at(&c->map, c->nodes, start, max);
    cache_note_size(c);
    *ret_start = start;
    return max;
}

SA_RARE void sa_huge_cache_note_released(struct sa_huge_cache *c, size_t n, bool periodic)
{
    if (periodic)
        c->stats.periodic_released += n;
    else
        c->stats.fast_released += n;
}

SA_RARE static struct sa_huge_range cache_range(const struct sa_sliding_window *w)
{
    return (struct sa_huge_range){.min = sa_sliding_window_min(w, SA_HUGE_CACHE_REPORT_NS),
                                  .now = w->now,
                                  .max = sa_sliding_window_max(w, SA_HUGE_CACHE_REPORT_NS)};
}

SA_RARE void sa_huge_cache_report(struct sa_huge_cache *c, struct sa_huge_cache_stats *ret)
{
    cache_integrate(c);
    *ret = c->stats;
    ret->cached = c->map.hugepages;
    ret->limit = sa_min(c->limit, c->ceiling);
    ret->cached_mib_s = (uint64_t)(c->cached_hp_s * (double)(SA_HUGE_BYTES >> 20));
    ret->usage = cache_range(&c->usage_min);
    ret->off_peak = cache_range(&c->off_peak_min);
    ret->size = cache_range(&c->size_min);
}
