/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region against arrays that say of each page who has it and whether it has memory: what is given
 * out, what is known to be zero, what is released, and its counts.
 */
#include "alloc/page_heap/huge/huge_region.h"

#include "test/fuzz/fuzz.h"

#define SPANS 64
#define STEPS 300 /* each costs a look at all pages */

static struct sa_huge_region *region;
static uint8_t owner[SA_REGION_PAGES]; /* 0: free */
static bool memory[SA_REGION_PAGES];
static uint8_t looks[SA_REGION_HUGEPAGES];
static struct {
    uint32_t at, n;
} spans[SPANS + 1]; /* the first is not used */
static uint64_t now_ns;
static bool eager; /* the kernel gives memory to all of a hugepage that had none */

static void begin(void)
{
    free(region);
    region = calloc(1, sizeof(*region));
    FUZZ_CHECK(region);
    memset(owner, 0, sizeof(owner));
    memset(memory, 0, sizeof(memory));
    memset(looks, 0, sizeof(looks));
    memset(spans, 0, sizeof(spans));
    sa_huge_region_init(region, 1000, now_ns = 5000000000);
}

static bool has_memory(uint32_t h)
{
    return memchr(&memory[h * SA_HUGE_PAGES], true, SA_HUGE_PAGES);
}

static void set(uint32_t at, uint32_t n, uint8_t id)
{
    for (uint32_t h = at / SA_HUGE_PAGES; id && eager && h <= (at + n - 1) / SA_HUGE_PAGES; h++)
        if (!has_memory(h))
            memset(&memory[h * SA_HUGE_PAGES], true, SA_HUGE_PAGES);
    for (uint32_t i = at; i < at + n; i++) {
        FUZZ_CHECK((owner[i] == 0) == (id != 0));
        owner[i] = id;
        memory[i] = memory[i] || id;
    }
}

static void check(void)
{
    static struct sa_span_ages ages;
    struct sa_huge_region_stats s = {0};
    size_t used = 0, backed = 0, free_pages = 0, counted[2] = {0, 0};
    uint32_t full = SA_REGION_HUGEPAGES;

    for (uint32_t h = 0; h < SA_REGION_HUGEPAGES; h++) {
        uint32_t taken = 0, with_memory = 0;
        bool any = has_memory(h); /* else it is free */

        for (uint32_t i = h * SA_HUGE_PAGES; any && i < (h + 1) * SA_HUGE_PAGES; i++) {
            taken += owner[i] != 0;
            with_memory += memory[i];
            free_pages += memory[i] && !owner[i];
        }
        FUZZ_EQUAL(region->taken[h], taken);
        FUZZ_EQUAL(region->unbacked_in[h], SA_HUGE_PAGES - with_memory);
        used += taken;
        backed += with_memory != 0;
        if (full == SA_REGION_HUGEPAGES && taken > SA_HUGE_PAGES - 16 && looks[h] < 3)
            full = h;
    }
    FUZZ_EQUAL(sa_huge_region_backed(region), free_pages);
    FUZZ_EQUAL(sa_huge_region_next_full(region, 0), full);
    memset(&ages, 0, sizeof(ages));
    sa_huge_region_report(region, &s, &ages, now_ns);
    FUZZ_EQUAL(s.regions, 1);
    FUZZ_EQUAL(s.hugepages, SA_REGION_HUGEPAGES);
    FUZZ_EQUAL(s.backed_hugepages, backed);
    FUZZ_EQUAL(s.used_pages, used);
    FUZZ_EQUAL(s.free_pages, free_pages);
    FUZZ_EQUAL(s.used_pages + s.free_pages + s.unmapped_pages, SA_REGION_PAGES);
    for (int i = 0; i < SA_AGE_LENGTHS; i++) {
        counted[0] += ages.backed[i].pages;
        counted[1] += ages.released[i].pages;
    }
    FUZZ_EQUAL(counted[0], s.free_pages);
    FUZZ_EQUAL(counted[1], s.unmapped_pages);
}

/* The shortest free run that holds n at the alignment, the first of those. */
static long best_fit(uint32_t n, uint32_t align)
{
    uint32_t best = UINT32_MAX, end;
    long found = -1;

    for (uint32_t at = 0; at < SA_REGION_PAGES; at = end + 1) {
        uint32_t first;

        for (end = at; end < SA_REGION_PAGES; end++) { /* eight at a time, where it is empty */
            uint64_t eight;

            while (end + 8 <= SA_REGION_PAGES && !(memcpy(&eight, &owner[end], 8), eight))
                end += 8;
            if (end < SA_REGION_PAGES && owner[end])
                break;
        }
        end = end < SA_REGION_PAGES ? end : SA_REGION_PAGES;
        first = (at + align - 1) / align * align;
        if (first + n <= end && end - at < best) {
            best = end - at;
            found = first;
        }
    }
    return found;
}

static void take(struct fuzz_input *in, uint8_t id)
{
    uint32_t n = 1 + (uint32_t)fuzz_number(in, 2) * 4, align = 1u << fuzz_below(in, 10);
    struct sa_region_place place;
    long expect = best_fit(n, align), at;
    bool is_zero = true;
    size_t unbacked;

    place = sa_huge_region_find(region, n, align, eager);
    at = place.at;
    FUZZ_EQUAL(at, expect);
    if (at < 0)
        return;
    if (fuzz_byte(in) % 8 == 0) {
        sa_huge_region_cancel(region, &place);
        return;
    }
    unbacked = region->unbacked_pages;
    sa_huge_region_commit(region, &place, eager);
    FUZZ_EQUAL(unbacked - region->unbacked_pages, place.grows);
    for (uint32_t i = 0; i < n; i++)
        is_zero = is_zero && !memory[at + i];
    FUZZ_EQUAL(place.zero, is_zero);
    set((uint32_t)at, n, id);
    spans[id].at = (uint32_t)at;
    spans[id].n = n;
}

static void resize(struct fuzz_input *in, uint8_t id)
{
    uint32_t at = spans[id].at, n = spans[id].n, more = (uint32_t)fuzz_size(in, 12);

    if (fuzz_byte(in) % 2) {
        bool room = at + n + more <= SA_REGION_PAGES;

        for (uint32_t i = 0; room && i < more; i++)
            room = owner[at + n + i] == 0;
        FUZZ_EQUAL(sa_huge_region_extend(region, at + n, more, eager), room);
        if (room) {
            set(at + n, more, id);
            spans[id].n += more;
        }
    } else if (n > more) {
        sa_huge_region_put(region, at + n - more, more, false, now_ns);
        set(at + n - more, more, 0);
        spans[id].n -= more;
    }
}

static void release(struct fuzz_input *in)
{
    uint32_t min = 1 + fuzz_byte(in), max = 0;
    uint64_t done[SA_HUGE_PAGES / 64] = {0};
    struct sa_region_release r;
    unsigned good = fuzz_byte(in); /* so many runs of pages the kernel takes */
    bool before = false;

    for (uint32_t h = 0; h < SA_REGION_HUGEPAGES; h++) {
        uint32_t backed = SA_HUGE_PAGES - region->taken[h] - region->unbacked_in[h];

        if (backed > max && (backed >= min || region->taken[h] == 0))
            max = backed;
    }
    FUZZ_EQUAL(sa_huge_region_begin(region, min, &r), max > 0);
    if (!max)
        return;
    FUZZ_EQUAL(r.pages, max);
    FUZZ_EQUAL(region->moving_pages, max);
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++) {
        uint32_t page = r.index * SA_HUGE_PAGES + i;
        bool moves = memory[page] && !owner[page];

        FUZZ_EQUAL(r.mask[i / 64] >> i % 64 & 1, moves);
        if (moves && !before && good)
            good--;
        if (moves && good) {
            FUZZ_CHECK(!sa_huge_region_extend(region, page, 1, eager)); /* out of reach */
            done[i / 64] |= 1ull << i % 64;
            memory[page] = false;
        }
        before = moves;
    }
    sa_huge_region_end(region, &r, done, now_ns);
    looks[r.index] = 0;
}

/* A hugepage that is nearly all taken, if there is one, is looked at. */
static void look(struct fuzz_input *in)
{
    uint32_t h = sa_huge_region_next_full(region, 0);
    bool made = fuzz_byte(in) % 2;

    if (h == SA_REGION_HUGEPAGES)
        return;
    sa_huge_region_looked(region, h, made);
    looks[h] = made ? 3 : looks[h] + 1u;
    for (uint32_t i = h * SA_HUGE_PAGES; made && i < (h + 1) * SA_HUGE_PAGES; i++)
        memory[i] = true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, data + size};

    begin();
    eager = fuzz_byte(&in) % 2;
    for (int step = 0; fuzz_left(&in) && step < STEPS; step++) {
        uint8_t id = (uint8_t)(1 + fuzz_below(&in, SPANS));

        now_ns += fuzz_byte(&in) * 1000000u;
        switch (fuzz_byte(&in) % 4) {
        case 0:
            if (id % 4)
                release(&in);
            else
                look(&in);
            break;
        case 1:
            if (spans[id].n) {
                resize(&in, id);
                break;
            }
            /* fall through */
        default:
            if (!spans[id].n) {
                take(&in, id);
            } else {
                sa_huge_region_put(region, spans[id].at, spans[id].n, true, now_ns);
                set(spans[id].at, spans[id].n, 0);
                spans[id].n = 0;
            }
        }
        if (step % 32 == 31)
            check();
    }
    check();
    return 0;
}
