/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole hugepages that are free and backed, kept for the next demand. The limit follows demand. A
 * request that the cache cannot serve raises it to the demand range of the last second. Time in
 * which the cache stays full lowers it. The heap also sets a ceiling, by what is in use.
 *
 * Usage is the hugepages that the cache gave out, or that the caller got elsewhere after a miss,
 * less those that came back. Large spans, the filler and regions hold them. No lock of its own, no
 * system call: the caller takes the surplus out with sa_huge_cache_evict, releases it, and reports
 * that to sa_huge_cache_note_released.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_CACHE_H
#define SA_PAGE_HEAP_HUGE_HUGE_CACHE_H

#include "alloc/page_heap/huge/huge_address_map.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/sliding_window.h"

#define SA_HUGE_CACHE_MIN       24 /* least limit: what the heap keeps in any case */
#define SA_HUGE_CACHE_NS        1000000000ull
#define SA_HUGE_CACHE_SHRINK_NS 2000000000ull
#define SA_HUGE_CACHE_REPORT_NS 600000000000ull
#define SA_HUGE_CACHE_AGAIN_NS  2000000000ull

struct sa_huge_cache {
    struct sa_huge_map map;
    struct sa_huge_nodes *nodes;
    size_t limit, ceiling; /* hugepages; the cache keeps at most the lesser of both */
    size_t demand_range;   /* demand range of usage for which hugepages were missing lately */
    size_t usage, peak;    /* peak: highest usage of the last second */
    /* Hugepages requested while usage was below its peak, and only up to the peak. Halved every
     * SA_HUGE_CACHE_AGAIN_NS, the last time at retaken_ns. */
    size_t retaken;
    uint64_t retaken_ns;
    uint64_t limit_changed_ns, now_ns;
    size_t min_size;  /* since the limit changed */
    size_t low_water; /* low-water mark: least size since the last tick of the heap */
    struct sa_sliding_window usage_s, usage_min, off_peak_min,
        size_min; /* usage_s: of a second; the others: of ten minutes */
    double cached_hp_s;
    uint64_t cached_since_ns;
    struct sa_huge_cache_stats stats;
};

void sa_huge_cache_init(struct sa_huge_cache *c, struct sa_huge_nodes *nodes);

/* Tells the time. */
void sa_huge_cache_tick(struct sa_huge_cache *c, uint64_t now_ns);

/* n hugepages at a multiple of align; SA_HUGE_NONE: the caller gets them elsewhere. Both count as
 * usage. */
size_t sa_huge_cache_take(struct sa_huge_cache *c, size_t n, size_t align);

/* Takes n hugepages off usage: the caller's request failed, or the hugepages come back unbacked. */
void sa_huge_cache_unuse(struct sa_huge_cache *c, size_t n);

/* Adds n hugepages to usage that the caller got elsewhere without asking here. */
void sa_huge_cache_use(struct sa_huge_cache *c, size_t n);

/* Takes exactly this range if it is cached, for spans that grow. Counts as usage. */
bool sa_huge_cache_take_at(struct sa_huge_cache *c, size_t start, size_t n);

/* Takes a range as a part of a larger request. The caller counts the usage. */
bool sa_huge_cache_take_part(struct sa_huge_cache *c, size_t start, size_t n);

/* Puts a range back into the cache. */
void sa_huge_cache_put(struct sa_huge_cache *c, size_t start, size_t n);

/* Puts back a range whose release failed. */
void sa_huge_cache_restore(struct sa_huge_cache *c, size_t start, size_t n);

/* The surplus: hugepages beyond the limit or the ceiling. */
size_t sa_huge_cache_surplus(struct sa_huge_cache *c);

/*
 * Cached hugepages that are likely to be requested again within a second, and therefore are no
 * surplus, however much is free: as many as were missing lately, but no more than usage is below
 * its peak of the last second.
 */
size_t sa_huge_cache_needed(const struct sa_huge_cache *c);

/* True if the predicted demand was requested at least AGAIN_TIMES times within the last
 * seconds. It is then expected again even if the program uses nothing else. */
bool sa_huge_cache_comes_again(const struct sa_huge_cache *c);

/* Lowers the limit if the cache has stayed full. Called at each tick. */
void sa_huge_cache_shrink(struct sa_huge_cache *c);

/* Takes at most n hugepages of one range out for release. Returns how many, from *ret_start on. */
size_t sa_huge_cache_evict(struct sa_huge_cache *c, size_t n, size_t *ret_start);

void sa_huge_cache_note_released(struct sa_huge_cache *c, size_t n, bool periodic);

void sa_huge_cache_report(struct sa_huge_cache *c, struct sa_huge_cache_stats *ret);

#endif
