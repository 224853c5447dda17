/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a sample beside its sizes: the thread, place and time of the allocation, and
 * whether the block is guarded or why not. Every block is sampled. */
#include "alloc/os/vm.h"
#include "test/support/guards.h"

#include "alloc/front/block.h"
#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "sampling/snapshot/profile_snapshot.h"
#include "sampling/snapshot/residency.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

bool __real_sa_vm_protect(void *p, size_t bytes, bool accessible);
bool __wrap_sa_vm_protect(void *p, size_t bytes, bool accessible);

static bool refuse_access; /* the kernel does */

bool __wrap_sa_vm_protect(void *p, size_t bytes, bool access)
{
    return !(access && refuse_access) && __real_sa_vm_protect(p, bytes, access);
}

/* The copy of the sample at an address. */
static struct sa_sample_copy copy_of(bool peak, const void *p)
{
    struct sa_sample_copy found = {.samples = 0};
    struct sa_copied copied;

    assert_true(sa_live_copy(peak, &copied));
    for (size_t i = 0; i < copied.count; i++)
        if (copied.samples[i].address == (uintptr_t)p)
            found = copied.samples[i];
    sa_live_free_copied(&copied);
    assert_int_equal(found.samples, 1);
    return found;
}

/* The status of a block of this size, from its record; a profile's row says the same. */
static int status_of(size_t size, size_t align)
{
    void *p = sa_front_alloc(size, align, false);
    struct sa_sample_copy copy = copy_of(false, p);
    int error, status = copy.key.guarded;
    struct sa_profile *profile;
    struct salloc_profile_sample bucket;

    sa_fork_gate_enter();
    profile = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    sa_fork_gate_leave();
    assert_true(profile && profile->bucket_count == 1);
    sa_profile_bucket_sample(profile, &profile->buckets[0], &bucket);
    assert_int_equal(bucket.guarded_status, status);
    assert_int_equal(is_guarded(p), status == SALLOC_GUARDED_GUARDED);
    sa_profile_free(profile);
    sa_front_free(p);
    return status;
}

static void test_record_says_whether_it_is_guarded(void **state)
{
    void *p[GUARD_SLOTS];

    (void)state;
    guard_all();
    assert_int_equal(status_of(100, 1), SALLOC_GUARDED_GUARDED);
    assert_int_equal(status_of(20000, 1), SALLOC_GUARDED_GUARDED);
    assert_int_equal(status_of(100, 2 * SA_PAGE_BYTES), SALLOC_GUARDED_LARGER_THAN_ONE_PAGE);
    assert_int_equal(status_of(SA_MID_MAX + 1, 1), SALLOC_GUARDED_LARGER_THAN_ONE_PAGE);
    refuse_access = true;
    assert_int_equal(status_of(100, 1), SALLOC_GUARDED_MPROTECT_FAILED);
    refuse_access = false;
    for (size_t i = 0; i < GUARD_SLOTS; i++) {
        p[i] = sa_front_alloc(64, 1, false);
        assert_int_equal(copy_of(false, p[i]).key.guarded, i < GUARD_SLOTS / 2
                                                               ? SALLOC_GUARDED_GUARDED
                                                               : SALLOC_GUARDED_NO_AVAILABLE_SLOTS);
    }
    for (size_t i = 0; i < GUARD_SLOTS; i++)
        sa_front_free(p[i]);
    sa_guard_policy_init(0, 1);
    assert_int_equal(status_of(100, 1), SALLOC_GUARDED_DISABLED);
    assert_int_equal(status_of(SA_MID_MAX + 1, 1), SALLOC_GUARDED_DISABLED);
    sa_guard_policy_init(1000000, 1); /* none in the first moments */
    assert_int_equal(status_of(100, 1), SALLOC_GUARDED_RATE_LIMITED);
    assert_int_equal(status_of(SA_MID_MAX + 1, 1), SALLOC_GUARDED_RATE_LIMITED);
    sa_guard_policy_init(0, 1);
    assert_no_guards_left();
}

/* Guarded or not, small or large; also if it is freed, as long as the peak knows it. */
static void test_record_says_where_and_when(void **state)
{
    static const size_t sizes[] = {1, 100, 5000, 200000, SA_MID_MAX + 1, 3 * MIB};

    (void)state;
    for (int guard = 0; guard < 2; guard++)
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            uint64_t before = sa_clock_coarse_ns();
            struct sa_sample_copy copy;
            void *p;

            if (guard)
                guard_all();
            p = sa_front_alloc(sizes[i], 1, false);
            copy = copy_of(false, p);
            assert_int_equal(copy.start, (uintptr_t)p);
            assert_in_range(copy.time_ns, before, sa_clock_ns());
            assert_int_equal(copy.tid, sa_sys_tid());
            sa_front_free(p);
            sa_guard_policy_init(0, 1);
        }
    assert_no_guards_left();
}

static void test_record_of_the_peak_says_where(void **state)
{
    void *p = sa_front_alloc(64 * MIB, 1, false);
    struct sa_sample_copy copy;

    (void)state;
    sa_front_free(p);
    copy = copy_of(true, p);
    assert_true(copy.start == 0 && copy.tid == sa_sys_tid());
}

/* Each thread's number is the kernel's, and asked for once: every time but the first it is
 * known. */
static void allocate(int index, void *arg)
{
    void **blocks = arg;

    for (int i = 0; i < 10; i++) {
        const struct sa_sample *s;

        blocks[index] = sa_front_alloc(100, 1, false);
        s = sa_pagemap_find((uintptr_t)blocks[index])->sample;
        THREAD_CHECK(s->tid == sa_sys_tid() && s->tid == sa_sample_tid(false));
        THREAD_CHECK(s->address == (uintptr_t)blocks[index]);
        if (i < 9)
            sa_front_free(blocks[index]);
    }
}

static void test_record_says_which_thread(void **state)
{
    void *blocks[8];

    (void)state;
    test_threads_run(8, allocate, blocks);
    test_threads_check();
    for (int i = 0; i < 8; i++) {
        uint32_t tid = copy_of(false, blocks[i]).tid;

        assert_int_not_equal(tid, sa_sys_tid());
        for (int k = 0; k < i; k++)
            assert_int_not_equal(tid, copy_of(false, blocks[k]).tid);
    }
    for (int i = 0; i < 8; i++)
        sa_front_free(blocks[i]);
}

/* What a heap profile says that the only sample has in memory, and of that in zeros. Returns what
 * is known. */
static unsigned measure(size_t *ret_resident, size_t *ret_zero)
{
    struct sa_profile *profile;
    unsigned knows;
    int error;

    sa_fork_gate_enter();
    profile = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    sa_fork_gate_leave();
    assert_true(profile && profile->bucket_count == 1);
    sa_snapshot_measure(profile);
    knows = profile->knows;
    *ret_resident = (size_t)profile->buckets[0].resident;
    *ret_zero = (size_t)profile->buckets[0].zero;
    sa_profile_free(profile);
    return knows;
}

/* Bytes from `start` on, of a block that ends at `end`, on the page of its byte `at`. */
static size_t part_of_page(uintptr_t at, uintptr_t start, uintptr_t end)
{
    uintptr_t page = sa_align_down(at, sa_vm.page_bytes);

    return sa_min(page + sa_vm.page_bytes, end) - sa_max(page, start);
}

/*
 * A guarded block has in memory what the program has written, be it zeros, as any other: not the
 * pages that hold the pattern beside the block, and not those of other slots.
 */
static void test_record_of_a_guarded_block_counts_what_was_written(void **state)
{
    static const size_t sizes[] = {1, 100, 3000, 4096, 5000, 8192, 20000, 200001, SA_MID_MAX};
    size_t resident, zero;

    (void)state;
    guard_all();
    for (size_t i = 0; i < 4 * TEST_COUNT(sizes); i++) { /* at either end of the slot */
        size_t size = sizes[i / 4], allocated = sa_size_classes.of[sa_block_class(size, 1)].size;
        char *p = sa_front_alloc(size, 1, false);
        uintptr_t start = (uintptr_t)p, at = start + size / 2, end;

        assert_true(is_guarded(p));
        end = sa_min(start + allocated, sa_align_up(start + size, sa_vm.page_bytes));
        if (!(measure(&resident, &zero) & SA_KNOWS_ZERO))
            TEST_SKIP("the kernel does not tell what is in memory");
        assert_int_equal(resident, 0);
        assert_int_equal(zero, 0);
        p[size / 2] = 1;
        measure(&resident, &zero);
        assert_int_equal(resident, part_of_page(at, start, end));
        assert_int_equal(zero, 0);
        memset(p, 0, size);
        measure(&resident, &zero);
        assert_int_equal(resident, end - start);
        assert_int_equal(zero, end - start);
        sa_front_free(p);
        p = sa_front_alloc(size, 1, true); /* what is cleared for the program was touched for it */
        measure(&resident, &zero);
        assert_true(resident >= size && zero == resident);
        sa_front_free(p);
    }
    sa_guard_policy_init(0, 1);
    assert_no_guards_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_of_the_peak_says_where), /* before others make a peak */
        cmocka_unit_test(test_record_says_whether_it_is_guarded),
        cmocka_unit_test(test_record_says_where_and_when),
        cmocka_unit_test(test_record_says_which_thread),
        cmocka_unit_test(test_record_of_a_guarded_block_counts_what_was_written),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    sa_guard_policy_init(0, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("sample_record", tests, NULL, NULL);
}
