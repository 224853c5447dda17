/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole hugepages that are free and hold memory, kept for the next demand. How many are kept
 * follows demand: a request that is not served raises the limit to what usage has swung by within a
 * second, time in which the cache stays full lowers it. The heap sets a ceiling on top, by what is
 * in use.
 *
 * Usage counts hugepages that the cache gave out or let past, less those that came back: what large
 * spans, the filler and regions hold. No lock of its own, no system call: what is over the limit is
 * taken out by sa_huge_cache_shed, released by the caller, and reported by
 * sa_huge_cache_note_released.
 */
#ifndef SA_PAGE_HEAP_HUGE_HUGE_CACHE_H
#define SA_PAGE_HEAP_HUGE_HUGE_CACHE_H

#include "alloc/page_heap/huge/huge_address_map.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "alloc/page_heap/huge/sliding_window.h"

#define SA_HUGE_CACHE_MIN       24 /* the limit never falls below: what the heap keeps in any case */
#define SA_HUGE_CACHE_NS        1000000000ull
#define SA_HUGE_CACHE_SHRINK_NS 2000000000ull
#define SA_HUGE_CACHE_REPORT_NS 600000000000ull
#define SA_HUGE_CACHE_AGAIN_NS  2000000000ull

struct sa_huge_cache {
    struct sa_huge_map map;
    struct sa_huge_nodes *nodes;
    size_t limit, ceiling; /* hugepages; kept: the lesser of both */
    size_t swing;          /* of usage, by which hugepages were missing lately */
    size_t usage, peak;    /* peak: of usage in the last second */
    /* Asked for while usage was below its peak, by no more; halved every AGAIN_NS, the last time at
     * retaken_ns. */
    size_t retaken;
    uint64_t retaken_ns;
    uint64_t limit_changed_ns, now_ns;
    size_t least_size; /* since the limit changed */
    size_t low_water;  /* least size since the heap last looked */
    struct sa_sliding_window usage_s, usage_min, off_peak_min,
        size_min; /* of a second, of ten minutes */
    double cached_hp_s;
    uint64_t cached_since_ns;
    struct sa_huge_cache_stats stats;
};

void sa_huge_cache_init(struct sa_huge_cache *c, struct sa_huge_nodes *nodes);

/* Tells the time. */
void sa_huge_cache_tick(struct sa_huge_cache *c, uint64_t now_ns);

/* n hugepages at a multiple of align, or SA_HUGE_NONE: then the caller gets them elsewhere. Both
 * count as usage. */
size_t sa_huge_cache_take(struct sa_huge_cache *c, size_t n, size_t align);

/* The caller's request came to nothing, or it gives back hugepages without memory. */
void sa_huge_cache_unuse(struct sa_huge_cache *c, size_t n);

/* The caller got n hugepages elsewhere without asking here. */
void sa_huge_cache_use(struct sa_huge_cache *c, size_t n);

/* Exactly this range, if it is in the cache: for spans that grow. Counts as usage. */
bool sa_huge_cache_take_at(struct sa_huge_cache *c, size_t start, size_t n);

/* The same as a part of a request that the cache does not serve as a whole: usage is counted
 * elsewhere. */
bool sa_huge_cache_take_part(struct sa_huge_cache *c, size_t start, size_t n);

/* Puts a range back into the cache. */
void sa_huge_cache_put(struct sa_huge_cache *c, size_t start, size_t n);

/* Puts back a range that was to be released and could not be. */
void sa_huge_cache_restore(struct sa_huge_cache *c, size_t start, size_t n);

/* Hugepages beyond what is to be kept. */
size_t sa_huge_cache_excess(struct sa_huge_cache *c);

/*
 * Cached hugepages that are likely to be asked for again within a second, and so are no excess,
 * however much is free: as many as were missing lately, but no more than have been used in the last
 * second.
 */
size_t sa_huge_cache_needed(const struct sa_huge_cache *c);

/* Whether as many as are likely to be asked for have been asked for four times within the last
 * seconds, so that they will be once more even if the program uses nothing else. */
bool sa_huge_cache_comes_again(const struct sa_huge_cache *c);

/* Lowers the limit where the cache has stayed full: called now and then. */
void sa_huge_cache_shrink(struct sa_huge_cache *c);

/* Takes at most n hugepages, one range, out in order to release them: how many, from *ret_start
 * on. */
size_t sa_huge_cache_shed(struct sa_huge_cache *c, size_t n, size_t *ret_start);

void sa_huge_cache_note_released(struct sa_huge_cache *c, size_t n, bool periodic);

void sa_huge_cache_report(struct sa_huge_cache *c, struct sa_huge_cache_stats *ret);

#endif
