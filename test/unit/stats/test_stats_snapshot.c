/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats snapshot: exact at rest, to the byte, layer by layer. Its sums add up whatever moves
 * while it is taken. It names the classes with most fragmentation.
 *
 * The program is linked with --wrap for sa_transfer_stats, so that a test can move objects after
 * one layer was read and before the next one is.
 */
#include "stats/stats_snapshot.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/vm.h"
#include "pagemap/pagemap.h"
#include "test/support/cmocka.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"
#include "test/support/traffic.h"

#include <stdio.h>
#include <string.h>

#define MIB (1ul << 20)

void __real_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret);
void __wrap_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret);

static void (*between_floors)(unsigned cls);

void __wrap_sa_transfer_stats(unsigned cls, struct sa_transfer_stats *ret)
{
    if (between_floors)
        between_floors(cls);
    __real_sa_transfer_stats(cls, ret);
}

static const struct sa_snapshot *take(void)
{
    static struct sa_snapshot s;

    memset(&s, 0xee, sizeof(s));
    sa_snapshot_take(&s);
    return &s;
}

/* mapped = everything else, and the caches' bytes are the sums over the classes. */
static bool adds_up(const struct sa_snapshot *s)
{
    size_t cached = 0, tails = 0;

    for (unsigned cls = 1; cls < s->classes; cls++) {
        const struct sa_snapshot_class *c = &s->cls[cls];
        size_t objects = sa_size_classes.of[cls].objects;

        if (c->free_objects != c->cpu_objects + c->transfer_objects + c->central_objects)
            return false;
        cached += c->free_objects * c->size;
        tails += c->pages * SA_PAGE_BYTES - c->spans * objects * c->size;
    }
    return s->cpu_bytes + s->thread_bytes + s->transfer_bytes + s->central_bytes +
                   s->emptied_bytes ==
               cached + tails &&
           s->heap.mapped_bytes == s->in_use_bytes + s->heap.backed_bytes + s->heap.moving_bytes +
                                       s->heap.released_bytes + s->emptied_bytes + s->cpu_bytes +
                                       s->thread_bytes + s->transfer_bytes + s->central_bytes &&
           s->arena.mapped_bytes ==
               s->arena.allocated_bytes + s->arena.unallocated_bytes + s->arena.unavailable_bytes &&
           s->released_bytes == s->heap.released_bytes + s->emptied_bytes + s->reserved_bytes &&
           s->system_bytes == sa_snapshot_actual(s) + s->released_bytes;
}

static void test_snapshot_of_an_unused_allocator(void **state)
{
    const struct sa_snapshot *s = take();

    (void)state;
    assert_true(adds_up(s));
    assert_int_equal(s->in_use_bytes, 0);
    assert_int_equal(s->heap.mapped_bytes, 0);
    assert_int_equal(s->large_blocks, 0);
    assert_true(s->resident_bytes > 0 && s->mapped_bytes >= s->resident_bytes);
}

/* Bytes in use are those of the blocks, exactly, at any moment that nothing moves. */
static void test_snapshot_is_exact_at_rest(void **state)
{
    enum { BLOCKS = 2000 };
    struct test_random r = {0x57a};
    static void *blocks[BLOCKS];
    size_t expect = 0, large = 0, large_count = 0;

    (void)state;
    for (int step = 0; step < 20000; step++) {
        size_t i = test_random_below(&r, BLOCKS), bytes;
        int sign = blocks[i] ? -1 : 1;

        if (!blocks[i])
            blocks[i] = sa_front_alloc(test_random_size(&r, step % 100 ? 13 : 21), 1, false);
        bytes = sa_front_size(blocks[i], "test");
        expect += (size_t)sign * bytes;
        if (bytes > SA_MID_MAX) {
            large += (size_t)sign * bytes;
            large_count += (size_t)sign;
        }
        if (sign < 0) {
            sa_front_free(blocks[i]);
            blocks[i] = NULL;
        }
        if (step % 500 == 0) {
            const struct sa_snapshot *s = take();

            assert_true(adds_up(s));
            assert_int_equal(s->in_use_bytes, expect);
            assert_int_equal(s->large_bytes, large);
            assert_int_equal(s->large_blocks, large_count);
            assert_int_equal(test_per_cpu() ? s->thread_bytes : s->cpu_bytes, 0);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i])
            sa_front_free(blocks[i]);
    assert_int_equal(take()->in_use_bytes, 0);
    assert_true(adds_up(take()));
    sa_maintenance_release(PTRDIFF_MAX);
    assert_int_equal(take()->heap.in_use_bytes, 0);
    assert_true(adds_up(take()));
}

/* Of six classes with one object left on each span, the five with most spans are named. Of n such
 * spans n - 1 would go back. */
static void test_snapshot_names_the_fragmented_classes(void **state)
{
    static const size_t sizes[] = {64, 128, 256, 512, 1024, 32}, spans[] = {4, 7, 2, 5, 6, 3};
    static const size_t order[SA_FRAGMENTED_MAX] = {1, 4, 3, 0, 5};
    static void *objects[6][1024];
    const struct sa_snapshot *s;

    (void)state;
    for (int i = 0; i < 6; i++) {
        unsigned cls = sa_size_class_find(sizes[i]);
        size_t each = sa_size_classes.of[cls].objects, n = 0;

        assert_int_equal(sa_size_classes.of[cls].pages, 1);
        while (n < spans[i] * each)
            n += sa_central_remove(cls, objects[i] + n, spans[i] * each - n);
        while (n--)
            if (n % each)
                sa_central_insert(cls, &objects[i][n], 1);
    }
    s = take();
    for (int i = 0; i < SA_FRAGMENTED_MAX; i++) {
        assert_int_equal(s->fragmented[i].size, sizes[order[i]]);
        assert_int_equal(s->fragmented[i].bytes, (spans[order[i]] - 1) * SA_PAGE_BYTES);
    }
    assert_int_equal(s->fragmentation_bytes, (3 + 6 + 1 + 4 + 5 + 2) * SA_PAGE_BYTES);
    for (int i = 0; i < 6; i++) {
        unsigned cls = sa_size_class_find(sizes[i]);

        for (size_t n = 0; n < spans[i]; n++)
            sa_central_insert(cls, &objects[i][n * sa_size_classes.of[cls].objects], 1);
    }
    sa_central_flush();
    assert_int_equal(take()->fragmented[0].bytes, 0);
}

static void cache_to_transfer(unsigned cls)
{
    (void)cls;
    sa_cpu_cache_drain(-1);
}

/*
 * Everything is free, and moves from the CPU's cache to the transfer cache after the former was
 * read and before the latter is: it is seen twice, so that there seems to be more than there is.
 */
static void test_snapshot_adds_up_when_objects_are_seen_twice(void **state)
{
    static void *blocks[3000];
    const struct sa_snapshot *s;

    (void)state;
    for (size_t size = 16; size <= 4096; size *= 2) {
        size_t n = sa_min(TEST_COUNT(blocks), MIB / size / 4);

        for (size_t i = 0; i < n; i++)
            blocks[i] = sa_front_alloc(size, 1, false);
        for (size_t i = 0; i < n; i++)
            sa_front_free(blocks[i]);
    }
    between_floors = cache_to_transfer;
    s = take();
    between_floors = NULL;
    assert_true(adds_up(s));
    assert_true(adds_up(take()));
    assert_int_equal(take()->in_use_bytes, 0);
}

static uint64_t done; /* atomic */

static void load(int index, void *arg)
{
    (void)arg;
    if (index == 0) {
        for (int i = 0; i < 2000; i++) {
            struct sa_snapshot s;

            sa_snapshot_take(&s);
            THREAD_CHECK(adds_up(&s));
        }
        __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
        return;
    }
    traffic_until(&done, 0x10ad + (uint64_t)index, 2000);
}

static void test_snapshot_adds_up_under_load(void **state)
{
    (void)state;
    test_threads_run(4, load, NULL);
    test_threads_check();
    assert_true(adds_up(take()));
    assert_int_equal(take()->in_use_bytes, 0);
}

/*
 * All that the library takes for itself: arena, slabs, and of the map's class leaves of other
 * windows the part in use, a byte for each page of the range; the rest of the window is reserved.
 */
static void test_snapshot_counts_all_metadata(void **state)
{
    const size_t step = 1u << SA_MAP_LEAF_BITS; /* pages, and class bytes, of a span leaf */
    struct sa_snapshot before = *take(), after;

    (void)state;
    assert_true(sa_pagemap_grow(5ul << SA_HOME_SHIFT, SA_PAGE_BYTES));
    after = *take();
    assert_int_equal(after.pagemap_bytes - before.pagemap_bytes,
                     sizeof(struct sa_map_node) + sizeof(struct sa_map_leaf) + step);
    assert_int_equal(after.metadata_bytes - before.metadata_bytes,
                     after.pagemap_bytes - before.pagemap_bytes);
    assert_int_equal(after.reserved_bytes - before.reserved_bytes, SA_HOME_PAGES - step);
    before = after;
    assert_true(sa_pagemap_grow((5ul << SA_HOME_SHIFT) + step * SA_PAGE_BYTES, SA_PAGE_BYTES));
    after = *take();
    assert_int_equal(after.pagemap_bytes - before.pagemap_bytes, sizeof(struct sa_map_leaf) + step);
    assert_int_equal(before.reserved_bytes - after.reserved_bytes, step);
    assert_int_equal(after.system_bytes, sa_vm_mapped_bytes());
}

/* At rest the rows are what was mapped, to the byte: memory that belongs to no layer counts as
 * metadata. */
static void test_snapshot_counts_all_that_is_mapped(void **state)
{
    struct sa_snapshot before = *take(), after;
    void *p;

    (void)state;
    assert_int_equal(before.system_bytes, sa_vm_mapped_bytes());
    p = sa_vm_map(NULL, 3 * MIB, "salloc:test");
    after = *take();
    assert_int_equal(after.system_bytes, sa_vm_mapped_bytes());
    assert_int_equal(after.system_bytes, before.system_bytes + 3 * MIB);
    assert_int_equal(after.other_bytes, before.other_bytes + 3 * MIB);
    assert_int_equal(after.metadata_bytes, before.metadata_bytes + 3 * MIB);
    sa_vm_unmap(p, 3 * MIB);
    assert_int_equal(take()->system_bytes, before.system_bytes);
}

/* The roots of the map are in memory as far as they were written: pages of the home leaf. */
static void test_snapshot_counts_resident_roots(void **state)
{
    /* Far from where the heap is, and not on the page where other variables follow. */
    const size_t page = SA_HOME_PAGES - 3 * sa_vm.page_bytes;
    struct sa_snapshot before;

    (void)state;
    assert_true(
        sa_pagemap_grow(SA_HOME_START + page * SA_PAGE_BYTES, SA_PAGE_BYTES)); /* writable */
    before = *take();
    assert_true(before.pagemap_root_resident_bytes > 0);
    sa_hot.home_class[page] = 0;
    sa_hot.home_any_class[page] = 0;
    assert_int_equal(take()->pagemap_root_resident_bytes,
                     before.pagemap_root_resident_bytes + 2 * sa_vm.page_bytes);
}

static void test_snapshot_reads_the_process_from_the_kernel(void **state)
{
    unsigned long size = 0, resident = 0;
    const struct sa_snapshot *s;
    FILE *f = fopen("/proc/self/statm", "r");

    (void)state;
    if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
        TEST_SKIP("no /proc");
    fclose(f);
    s = take();
    /* The process may have grown in between, not by much. */
    assert_in_range(s->mapped_bytes, size * sa_vm.page_bytes - MIB,
                    size * sa_vm.page_bytes + 4 * MIB);
    assert_in_range(s->resident_bytes, resident * sa_vm.page_bytes / 2,
                    resident * sa_vm.page_bytes + 4 * MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_of_an_unused_allocator),
        cmocka_unit_test(test_snapshot_is_exact_at_rest),
        cmocka_unit_test(test_snapshot_names_the_fragmented_classes),
        cmocka_unit_test(test_snapshot_adds_up_when_objects_are_seen_twice),
        cmocka_unit_test(test_snapshot_adds_up_under_load),
        cmocka_unit_test(test_snapshot_counts_all_metadata),
        cmocka_unit_test(test_snapshot_counts_all_that_is_mapped),
        cmocka_unit_test(test_snapshot_counts_resident_roots),
        cmocka_unit_test(test_snapshot_reads_the_process_from_the_kernel),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
