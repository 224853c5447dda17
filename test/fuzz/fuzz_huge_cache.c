/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of hugepages against an array that says where each one is: usage, size, hits, what is
 * shed; and that the limit never falls below its least, never rises without a miss or falls but by
 * shrinking, and that the extremes it reports enclose what was seen since the last of them was
 * forgotten.
 */
#include "alloc/page_heap/huge/huge_cache.h"

#include "alloc/os/vm.h"
#include "test/fuzz/fuzz.h"

#define HUGEPAGES 256

static struct sa_huge_nodes nodes;
static struct sa_huge_cache cache;
static enum { OUTSIDE, CACHED, USED } where[HUGEPAGES];
static size_t used, cached;
static uint64_t hits, misses, stored;

static void set(size_t start, size_t n, int from, int to)
{
    FUZZ_CHECK(start + n <= HUGEPAGES);
    for (size_t i = start; i < start + n; i++) {
        FUZZ_EQUAL(where[i], from);
        where[i] = to;
    }
    used += to == USED ? n : 0;
    used -= from == USED ? n : 0;
    cached += to == CACHED ? n : 0;
    cached -= from == CACHED ? n : 0;
}

/* How many from start on are where asked, at most n. */
static size_t run(size_t start, size_t n, int at)
{
    size_t i = 0;

    while (i < n && start + i < HUGEPAGES && (int)where[start + i] == at)
        i++;
    return i;
}

static void check(void)
{
    struct sa_huge_cache_stats s;

    FUZZ_EQUAL(cache.usage, used);
    FUZZ_EQUAL(cache.map.hugepages, cached);
    FUZZ_CHECK(cache.limit >= SA_HUGE_CACHE_MIN);
    FUZZ_EQUAL(sa_huge_cache_surplus(&cache), cached > cache.limit && cache.limit < cache.ceiling
                                                  ? cached - cache.limit
                                              : cached > cache.ceiling ? cached - cache.ceiling
                                                                       : 0);
    sa_huge_cache_report(&cache, &s);
    FUZZ_EQUAL(s.hits, hits);
    FUZZ_EQUAL(s.misses, misses);
    FUZZ_EQUAL(s.stored, stored);
    FUZZ_EQUAL(s.usage.now, used);
    FUZZ_EQUAL(s.size.now, cached);
    FUZZ_CHECK(s.usage.min <= used && s.usage.max >= used);
    FUZZ_CHECK(s.size.min <= cached && s.size.max >= cached);
    FUZZ_CHECK(s.usage.max <= HUGEPAGES && s.size.max <= HUGEPAGES && s.off_peak.max <= HUGEPAGES);
    FUZZ_CHECK(cache.low_water <= cached && cache.min_size <= cached);
}

static void take(struct fuzz_input *in)
{
    size_t n = fuzz_size(in, 6), align = (size_t)1 << fuzz_below(in, 4), limit = cache.limit;
    size_t start = sa_huge_cache_take(&cache, n, align);

    if (start != SA_HUGE_NONE) {
        hits++;
        FUZZ_EQUAL(start % align, 0);
        FUZZ_EQUAL(cache.limit, limit);
        set(start, n, CACHED, USED);
        return;
    }
    misses++;
    FUZZ_CHECK(cache.limit >= limit);
    /* From elsewhere, or not at all. */
    start = fuzz_below(in, HUGEPAGES);
    if (run(start, n, OUTSIDE) == n)
        set(start, n, OUTSIDE, USED);
    else
        sa_huge_cache_unuse(&cache, n);
}

static void put(struct fuzz_input *in)
{
    size_t start = fuzz_below(in, HUGEPAGES), n = run(start, fuzz_size(in, 6), USED);

    if (!n)
        return;
    if (fuzz_byte(in) % 4) {
        sa_huge_cache_put(&cache, start, n);
        stored++;
        set(start, n, USED, CACHED);
    } else { /* without its memory */
        sa_huge_cache_unuse(&cache, n);
        set(start, n, USED, OUTSIDE);
    }
}

static void take_at(struct fuzz_input *in)
{
    size_t start = fuzz_below(in, HUGEPAGES), n = fuzz_size(in, 6);
    bool there = run(start, n, CACHED) == n;

    FUZZ_CHECK(sa_huge_cache_take_at(&cache, start, n) == there);
    if (there) {
        set(start, n, CACHED, USED);
    } else if (run(start, n, OUTSIDE) == n) {
        sa_huge_cache_use(&cache, n);
        set(start, n, OUTSIDE, USED);
    }
}

static void shed(struct fuzz_input *in)
{
    size_t start = 0, n = fuzz_size(in, 6), got = sa_huge_cache_evict(&cache, n, &start);

    FUZZ_CHECK(got <= n && (got > 0) == (cached > 0));
    set(start, got, CACHED, OUTSIDE);
    if (got && fuzz_byte(in) % 4 == 0) { /* the kernel refused */
        sa_huge_cache_restore(&cache, start, got);
        set(start, got, OUTSIDE, CACHED);
    } else {
        sa_huge_cache_note_released(&cache, got, fuzz_byte(in) % 2);
    }
}

static void let_pass(struct fuzz_input *in)
{
    size_t limit = cache.limit;

    sa_huge_cache_tick(&cache, cache.now_ns + fuzz_number(in, 1 + fuzz_below(in, 5)));
    FUZZ_EQUAL(cache.limit, limit);
    if (fuzz_byte(in) % 2) {
        sa_huge_cache_shrink(&cache);
        FUZZ_CHECK(cache.limit <= limit);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};
    size_t start;

    if (!sa_vm.page_bytes)
        sa_vm_init();
    memset(&cache, 0, sizeof(cache));
    memset(where, 0, sizeof(where));
    used = cached = hits = misses = stored = 0;
    sa_huge_cache_init(&cache, &nodes);
    sa_huge_cache_tick(&cache, 1000000000 + fuzz_number(&in, 4));
    if (fuzz_byte(&in) % 4 == 0)
        cache.ceiling = fuzz_byte(&in);
    while (fuzz_left(&in)) {
        FUZZ_CHECK(sa_huge_nodes_ready(&nodes, 4));
        switch (fuzz_byte(&in) % 6) {
        case 0:
        case 1:
            take(&in);
            break;
        case 2:
            put(&in);
            break;
        case 3:
            take_at(&in);
            break;
        case 4:
            shed(&in);
            break;
        default:
            let_pass(&in);
        }
        check();
    }
    while (cached) {
        size_t n = sa_huge_cache_evict(&cache, cached, &start);

        set(start, n, CACHED, OUTSIDE);
    }
    FUZZ_EQUAL(nodes.unused_count, nodes.created);
    return 0;
}
