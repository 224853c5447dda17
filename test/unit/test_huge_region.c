/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A region against arrays: who has a page, which hugepages have memory, and what is known to be zero. No
 * system is involved: a release is what the test says it is.
 */
#include "alloc/page_heap/huge_region.h"

#include "test/support/cmocka.h"
#include "test/support/random.h"

#include <stdlib.h>
#include <string.h>

#define SPANS 300

static struct sa_huge_region *region;
static uint16_t owner[SA_REGION_PAGES]; /* 0: free */
static bool memory[SA_REGION_PAGES];
static struct {
    uint32_t at, n;
} spans[SPANS + 1]; /* the first is not used */
static uint64_t now_ns;

static void begin(void)
{
    free(region);
    region = calloc(1, sizeof(*region));
    assert_non_null(region);
    memset(owner, 0, sizeof(owner));
    memset(memory, 0, sizeof(memory));
    memset(spans, 0, sizeof(spans));
    sa_huge_region_init(region, 1000, now_ns = 5000000000);
}

static void set(uint32_t at, uint32_t n, uint16_t id)
{
    for (uint32_t i = at; i < at + n; i++) {
        assert_true((owner[i] == 0) == (id != 0));
        owner[i] = id;
        memory[i] = memory[i] || id;
    }
}

static void check(void)
{
    struct sa_huge_region_stats s = {0};
    struct sa_span_ages *ages = calloc(1, sizeof(*ages));
    size_t used = 0, backed = 0, free_pages = 0, counted[2] = {0, 0};

    for (uint32_t h = 0; h < SA_REGION_HUGEPAGES; h++) {
        uint32_t taken = 0, with_memory = 0;

        for (uint32_t i = h * SA_HUGE_PAGES; i < (h + 1) * SA_HUGE_PAGES; i++) {
            taken += owner[i] != 0;
            with_memory += memory[i];
            free_pages += memory[i] && !owner[i];
        }
        assert_int_equal(region->taken[h], taken);
        assert_int_equal(region->clears[h], SA_HUGE_PAGES - with_memory);
        used += taken;
        backed += with_memory != 0;
    }
    assert_int_equal(sa_huge_region_backed(region), free_pages);
    sa_huge_region_report(region, &s, ages, now_ns);
    assert_int_equal(s.regions, 1);
    assert_int_equal(s.hugepages, SA_REGION_HUGEPAGES);
    assert_int_equal(s.backed_hugepages, backed);
    assert_int_equal(s.used_pages, used);
    assert_int_equal(s.free_pages, free_pages);
    assert_int_equal(s.used_pages + s.free_pages + s.unmapped_pages, SA_REGION_PAGES);
    for (int i = 0; i < SA_AGE_LENGTHS; i++) {
        counted[0] += ages->backed[i].pages;
        counted[1] += ages->released[i].pages;
    }
    assert_int_equal(counted[0], s.free_pages);
    assert_int_equal(counted[1], s.unmapped_pages);
    free(ages);
}

/* The first of n pages, taken; or -1. */
static long take(uint32_t n, uint32_t align, bool whole, bool *ret_zero)
{
    struct sa_region_place place = sa_huge_region_find(region, n, align, whole);
    size_t clear = region->clear_pages;

    if (place.at < 0)
        return -1;
    sa_huge_region_cancel(region, &place);
    place = sa_huge_region_find(region, n, align, whole); /* there again */
    sa_huge_region_commit(region, &place, whole);
    assert_int_equal(clear - region->clear_pages, place.grows);
    *ret_zero = place.zero;
    return place.at;
}

static void random_take(struct test_random *r, uint16_t id)
{
    uint32_t n = 129 + (uint32_t)test_random_size(r, 10);
    uint32_t align = 1u << test_random_below(r, 9);
    bool zero, is_zero = true;
    long at = take(n, align, false, &zero);

    if (at < 0)
        return;
    assert_int_equal(at % align, 0);
    for (uint32_t i = 0; i < n; i++)
        is_zero = is_zero && !memory[at + i];
    assert_int_equal(zero, is_zero);
    set((uint32_t)at, n, id);
    spans[id].at = (uint32_t)at;
    spans[id].n = n;
}

static void random_resize(struct test_random *r, uint16_t id)
{
    uint32_t at = spans[id].at, n = spans[id].n, more = 1 + (uint32_t)test_random_below(r, 100);

    if (test_random_below(r, 2)) {
        bool room = at + n + more <= SA_REGION_PAGES;

        for (uint32_t i = 0; room && i < more; i++)
            room = owner[at + n + i] == 0;
        assert_int_equal(sa_huge_region_extend(region, at + n, more, false), room);
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

static void random_release(struct test_random *r)
{
    uint32_t least = 1 + (uint32_t)test_random_below(r, SA_HUGE_PAGES), most = 0;
    uint64_t done[SA_HUGE_PAGES / 64] = {0};
    struct sa_region_release release;
    bool ok = true;

    for (uint32_t h = 0; h < SA_REGION_HUGEPAGES; h++) {
        uint32_t backed = SA_HUGE_PAGES - region->taken[h] - region->clears[h];

        if (backed > most && (backed >= least || region->taken[h] == 0))
            most = backed;
    }
    if (!sa_huge_region_begin(region, least, &release)) {
        assert_int_equal(most, 0);
        return;
    }
    assert_int_equal(release.pages, most);
    assert_int_equal(region->moving_pages, most);
    for (uint32_t i = 0; i < SA_HUGE_PAGES; i++) {
        uint32_t page = release.index * SA_HUGE_PAGES + i;

        assert_int_equal(release.mask[i / 64] >> i % 64 & 1, memory[page] && !owner[page]);
        if (!memory[page] || owner[page])
            continue;
        assert_false(sa_huge_region_extend(region, page, 1, false)); /* out of reach */
        ok = ok && test_random_below(r, 200) != 0;
        if (ok) {
            done[i / 64] |= 1ull << i % 64;
            memory[page] = false;
        }
    }
    sa_huge_region_end(region, &release, done, now_ns);
}

static void test_region_agrees_with_arrays(void **state)
{
    struct test_random r = {0x4e6};

    (void)state;
    begin();
    for (int step = 0; step < 6000; step++) {
        uint16_t id = (uint16_t)(1 + test_random_below(&r, SPANS));

        now_ns += 1000000;
        if (!spans[id].n) {
            random_take(&r, id);
        } else if (test_random_below(&r, 3) == 0) {
            random_resize(&r, id);
        } else {
            sa_huge_region_put(region, spans[id].at, spans[id].n, true, now_ns);
            set(spans[id].at, spans[id].n, 0);
            spans[id].n = 0;
        }
        if (step % 20 == 0)
            random_release(&r);
        if (step % 60 == 0)
            check();
    }
}

/* Best fit: a hole is filled by what fits it, not by what comes first. */
static void test_region_fits_best(void **state)
{
    bool zero;

    (void)state;
    begin();
    assert_int_equal(take(1000, 1, false, &zero), 0);
    assert_int_equal(take(200, 1, false, &zero), 1000);
    assert_int_equal(take(300, 1, false, &zero), 1200);
    assert_int_equal(take(200, 1, false, &zero), 1500);
    sa_huge_region_put(region, 0, 1000, true, now_ns);
    sa_huge_region_put(region, 1200, 300, true, now_ns);
    assert_int_equal(take(280, 1, false, &zero), 1200);
    assert_false(zero);
    assert_int_equal(take(400, 1, false, &zero), 0);
    assert_int_equal(take(SA_REGION_PAGES, 1, false, &zero), -1);
}

/* Where the kernel gives memory by the hugepage, all of one has it that was touched. */
static void test_region_notes_hugepages_that_come_whole(void **state)
{
    struct sa_region_release release;
    bool zero;

    (void)state;
    begin();
    assert_int_equal(take(300, 1, true, &zero), 0);
    assert_true(zero);
    assert_int_equal(sa_huge_region_backed(region), 512 - 300);
    assert_true(sa_huge_region_extend(region, 300, 300, true));
    assert_int_equal(sa_huge_region_backed(region), 768 - 600);
    assert_true(sa_huge_region_begin(region, 1, &release));
    assert_int_equal(release.index, 2);
    assert_false(release.empty);
    sa_huge_region_end(region, &release, release.mask, now_ns);
    assert_int_equal(sa_huge_region_backed(region), 0);
    assert_true(sa_huge_region_extend(region, 600, 10, true)); /* in pieces: only these */
    assert_int_equal(sa_huge_region_backed(region), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_region_agrees_with_arrays),
        cmocka_unit_test(test_region_fits_best),
        cmocka_unit_test(test_region_notes_hugepages_that_come_whole),
    };

    return cmocka_run_group_tests_name("huge_region", tests, NULL, NULL);
}
