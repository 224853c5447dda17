/* SPDX-License-Identifier: Apache-2.0 */
/* Guarded blocks through the front end, with every sample guarded: their place in the slot,
 * their accessible pages, slots that run out, and system calls that fail. test_misuse tests the
 * reports. */
#include "alloc/os/vm.h"
#include "test/support/guards.h"

#include "test/support/child.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"
#include "test/support/traffic.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

bool __real_sa_vm_protect(void *p, size_t bytes, bool accessible);
bool __wrap_sa_vm_protect(void *p, size_t bytes, bool accessible);

static bool refuse_access, refuse_protection; /* what the kernel does not do */

bool __wrap_sa_vm_protect(void *p, size_t bytes, bool access)
{
    if (access ? refuse_access : refuse_protection)
        return false;
    return __real_sa_vm_protect(p, bytes, access);
}

/* The slot that holds a block. */
static const struct sa_span *slot_of(const void *p)
{
    return sa_pagemap_find((uintptr_t)p);
}

/* Checks a block of a size and alignment: it lies at one end of its slot, is usable to the byte,
 * alone is accessible, and is inaccessible after its free. Returns true if it lies at the left
 * end. */
static bool check_block(size_t size, size_t align)
{
    unsigned char *p = sa_front_alloc(size, align, false);
    uintptr_t at = (uintptr_t)p, low = sa_align_down(at, sa_vm.page_bytes),
              high = sa_align_up(at + sa_max(size, 1), sa_vm.page_bytes);
    const struct sa_span *slot = slot_of(p);
    bool left = at == slot->start;

    assert_true(is_guarded(p) && own_page(p));
    assert_int_equal(at % sa_max(align, SA_MIN_ALIGN), 0);
    assert_int_equal(sa_front_size(p, "test"), sa_max(size, 1));
    assert_int_equal(sa_front_size_if_ours(p), sa_max(size, 1));
    assert_int_equal(sa_front_size_if_ours(p + 1), 0);
    assert_true(left || sa_span_end(slot) - (at + sa_max(size, 1)) < sa_max(align, SA_MIN_ALIGN));
    for (uintptr_t page = low; page < high; page += sa_vm.page_bytes)
        assert_true(accessible(page));
    assert_true(accessible(high - 1));
    assert_false(accessible(low - 1));
    assert_false(accessible(high));
    assert_false(accessible(slot->start - 1));
    assert_false(accessible(sa_span_end(slot)));
    fill(p, size, 1);
    sa_front_free_sized(p, size, align);
    for (uintptr_t page = slot->start; page < sa_span_end(slot); page += sa_vm.page_bytes)
        assert_false(accessible(page));
    assert_int_equal(sa_front_size_if_ours(p), 0);
    assert_int_equal(sa_vm_resident((void *)low, high - low), 0);
    return left;
}

/* Blocks of all sizes and alignments that fit. */
static void test_guarded_blocks_lie_against_a_guard(void **state)
{
    size_t left = 0, right = 0;

    (void)state;
    for (size_t align = 1; align <= SA_PAGE_BYTES; align *= 2) {
        for (size_t size = 0; size <= SA_PAGE_BYTES; size = size * 5 / 4 + 1)
            ++*(check_block(size, align) ? &left : &right);
        for (size_t size = SA_PAGE_BYTES + 1; size <= SA_MID_MAX; size = size * 3 / 2)
            ++*(check_block(size, align) ? &left : &right);
    }
    /* Each end has probability 1/2: of more than 400 blocks, more than 1/5 lie on either side,
     * with an error below 1e-30. */
    assert_true(left + right > 400 && left > (left + right) / 5 && right > (left + right) / 5);
    assert_no_guards_left();
}

/* The slots of large blocks run out on their own. Blocks above all classes have no slots. */
static void test_guarded_large_slots_run_out(void **state)
{
    enum { N = GUARD_SLOTS / 8 };
    struct sa_guarded_stats before = guarded();
    char *p[N], *small;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        p[i] = sa_front_alloc(SA_PAGE_BYTES + 1 + i * 10000, 1, false);
        assert_int_equal(is_guarded(p[i]), i < N / 2);
    }
    small = sa_front_alloc(100, 1, false);
    assert_true(is_guarded(small));
    sa_front_free(small);
    assert_int_equal(guarded().failed - before.failed, N / 2);
    for (size_t i = 0; i < N; i++)
        sa_front_free(p[i]);
    small = sa_front_alloc(SA_MID_MAX + 1, 1, false);
    assert_false(is_guarded(small));
    sa_front_free(small);
    assert_no_guards_left();
}

static void test_guarded_blocks_are_samples(void **state)
{
    unsigned char *p = sa_front_alloc(1000, 1, true), *q;
    struct sa_copied copied;

    (void)state;
    assert_true(is_guarded(p) && is_zero(p, 1000));
    assert_int_equal(live().samples, 1);
    assert_true(live().bytes == 1024);
    assert_int_equal(sampled_in_use(), 0);
    assert_true(sa_live_copy(false, &copied));
    assert_int_equal(copied.count, 1);
    assert_int_equal(copied.samples[0].start, (uintptr_t)p);
    assert_int_equal(copied.samples[0].key.requested, 1000);
    sa_live_free_copied(&copied);
    fill(p, 1000, 3);
    assert_ptr_equal(sa_front_realloc(p, 1000), p);
    for (size_t size = 1001; size < 200000; size *= 3) { /* moves, also inside of its class */
        q = sa_front_realloc(p, size);
        assert_true(q && q != p);
        assert_filled(q, 1000, 3);
        p = q;
    }
    q = sa_front_realloc(p, 10);
    assert_true(is_guarded(q));
    assert_filled(q, 10, 3);
    sa_front_free(q);
    assert_no_guards_left();
}

/* A program may pass the size of malloc_usable_size to a sized free, also for aligned blocks. */
static void test_guarded_blocks_are_freed_by_usable_size(void **state)
{
    (void)state;
    for (size_t align = 1; align <= SA_PAGE_BYTES; align *= 2) {
        for (size_t size = 0; size <= SA_PAGE_BYTES; size = size * 3 / 2 + 1) {
            void *p = sa_front_alloc(size, align, false);

            assert_true(is_guarded(p));
            sa_front_free_sized(p, sa_front_size(p, "test"), 0);
        }
    }
    assert_no_guards_left();
}

/* Dirty slots are cleared for calloc. */
static void test_guarded_blocks_are_cleared(void **state)
{
    struct test_random r = {0x6a2d};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        size_t size = test_random_below(&r, SA_PAGE_BYTES + 1);
        unsigned char *p = sa_front_alloc(size, 1, true);

        assert_true(is_guarded(p) && is_zero(p, size));
        memset(p, 0xaa, size);
        sa_front_free(p);
    }
    assert_no_guards_left();
}

/* Half of the slots can be in use. Further samples are not guarded. */
static void test_guarded_slots_run_out(void **state)
{
    enum { N = GUARD_SLOTS };
    struct sa_guarded_stats before = guarded(), s;
    char *p[N];

    (void)state;
    for (size_t i = 0; i < N; i++) {
        p[i] = sa_front_alloc(100, 1, false);
        assert_true(own_page(p[i]));
        assert_int_equal(is_guarded(p[i]), i < GUARD_SLOTS / 2);
    }
    s = guarded();
    assert_int_equal(s.slots, GUARD_SLOTS + GUARD_SLOTS / 8);
    assert_int_equal(s.allowed, GUARD_SLOTS / 2 + GUARD_SLOTS / 16);
    assert_int_equal(s.allocated, GUARD_SLOTS / 2);
    assert_int_equal(s.quarantined, GUARD_SLOTS / 2 + GUARD_SLOTS / 8);
    assert_int_equal(s.max_allocated, GUARD_SLOTS / 2);
    assert_int_equal(s.succeeded - before.succeeded, GUARD_SLOTS / 2);
    assert_int_equal(s.failed - before.failed, N - GUARD_SLOTS / 2);
    sa_front_free(p[0]);
    p[0] = sa_front_alloc(100, 1, false);
    assert_true(is_guarded(p[0]));
    for (size_t i = 0; i < N; i++)
        sa_front_free(p[i]);
    assert_no_guards_left();
}

/* A freed slot is rarely reused soon. With 65 or more free slots it is the next one with
 * probability 1/65 at most: 31 times in 2000 rounds, with deviation 5.5. 70 is 7 deviations
 * more. */
static void test_guarded_slots_are_used_again_at_random(void **state)
{
    unsigned same = 0;
    char *p, *q;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        p = sa_front_alloc(100, 1, false);
        sa_front_free(p);
        q = sa_front_alloc(100, 1, false);
        same += slot_of(p) == slot_of(q);
        sa_front_free(q);
    }
    assert_true(same > 0 && same < 70);
    assert_no_guards_left();
}

/* --- faults --- */

/* If the kernel refuses access to a slot, the sample is not guarded. A page that stays
 * accessible does no harm. */
static void test_guarded_survives_a_kernel_that_refuses(void **state)
{
    uint64_t failed = guarded().failed, taken_before = taken().failed;
    unsigned char *p;

    (void)state;
    refuse_access = true;
    p = sa_front_alloc(100, 1, false);
    assert_true(own_page(p) && !is_guarded(p));
    assert_int_equal(guarded().failed, failed + 1);
    assert_int_equal(guarded().allocated, 0);
    refuse_access = false;
    refuse_protection = true;
    memset(p, 1, 100);
    sa_front_free(p);
    for (int i = 0; i < 300; i++) {
        p = sa_front_alloc(i % 2 ? 100 : 300000, 1, true);
        assert_true(is_zero(p, 100));
        memset(p, 1, 100);
        sa_front_free(p);
    }
    refuse_protection = false;
    assert_int_equal(kept().spans, 0);
    assert_int_equal(taken().failed, taken_before);
    assert_no_guards_left();
}

/* Slots that are locked into memory cannot be released, but are reused. The count of reserved
 * bytes returns to its first value. */
static void test_guarded_uses_locked_slots_again(void **state)
{
    uint64_t reserved = sa_load_relaxed(&sa_vm.reserved_bytes);

    (void)state;
    test_faults.madvise_after = 0;
    for (int i = 0; i < 200; i++) {
        size_t size = i % 2 ? 50000 : 5000;
        unsigned char *p = sa_front_alloc(size, 1, true);

        assert_true(is_guarded(p) && is_zero(p, size));
        memset(p, 1, size);
        sa_front_free(p);
        assert_int_equal(sa_load_relaxed(&sa_vm.reserved_bytes), reserved);
    }
    test_faults_clear();
    assert_no_guards_left();
}

/* There is never memory for a pool. */
static void no_pool(void *unused)
{
    char *p;

    (void)unused;
    test_faults.mmap_after = 0;
    for (int i = 0; i < 10; i++) {
        p = sa_front_alloc(i % 2 ? 100 : 20000, 1, false);
        CHILD_CHECK(p && !is_guarded(p));
        sa_front_free(p);
    }
    test_faults_clear();
    CHILD_CHECK(guarded().succeeded == 0 && guarded().failed == 10 && guarded().slots == 0);
    CHILD_CHECK(guarded().allowed == 0);
}

static void test_guarded_survives_without_a_pool(void **state)
{
    void *p;

    (void)state;
    sa_guard_policy_init(0, 1);
    sa_sample_quarantine_init(0, 1);
    for (size_t size = 100; size <= 20000; size *= 200) { /* pages for samples */
        p = sa_front_alloc(size, 1, false);
        assert_true(own_page(p));
        sa_front_free(p);
    }
    guard_all();
    assert_int_equal(guarded().slots, 0);
    test_child_passes(no_pool, NULL);
}

/* With guarded samples off, nothing is guarded. */
static void test_guarded_can_be_off(void **state)
{
    uint64_t succeeded = guarded().succeeded;
    char *p;

    (void)state;
    sa_guard_policy_init(0, 1);
    sa_sample_quarantine_init(0, 1);
    for (int i = 0; i < 1000; i++) {
        p = sa_front_alloc(i % 2 ? 100 : MIB, 1, false);
        assert_false(is_guarded(p));
        sa_front_free(p);
        assert_true(accessible((uintptr_t)p));
    }
    assert_int_equal(guarded().succeeded, succeeded);
    assert_int_equal(guarded().every, 0);
    guard_all();
    assert_no_guards_left();
}

static void test_guarded_goes_on_after_fork(void **state)
{
    unsigned char *p = sa_front_alloc(100, 1, false), *q;
    int status;
    pid_t pid;

    (void)state;
    fill(p, 100, 4);
    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool good = is_guarded(p);

        assert_filled(p, 100, 4);
        q = sa_front_alloc(100, 1, false);
        good &= is_guarded(q);
        sa_front_free(p);
        sa_front_free(q);
        good &= !accessible((uintptr_t)p) && guarded().allocated == 0;
        _exit(!good);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_filled(p, 100, 4);
    sa_front_free(p);
    assert_no_guards_left();
}

/* --- threads --- */

#define PASSED 3000

static void *volatile passed[PASSED]; /* atomic */

/* One thread allocates, another frees, and a third looks up addresses. */
static void pass_on(int index, void *arg)
{
    struct sa_lookup found;

    (void)arg;
    for (size_t i = 0; i < PASSED; i++) {
        if (index == 0) {
            traffic_give(passed, i, 20000);
            THREAD_CHECK(own_page(passed[i]));
        } else if (index == 1) {
            traffic_take(passed, i, 20000);
        } else {
            void *p = __atomic_load_n(&passed[i], __ATOMIC_ACQUIRE);

            if (p && (sa_guarded_find((uintptr_t)p, &found) ||
                      sa_sample_quarantine_find((uintptr_t)p, &found)))
                THREAD_CHECK(found.state == SA_LOOKUP_NOTHING ||
                             (found.history.start && found.history.allocated.stack));
        }
    }
}

static void test_guarded_serves_threads(void **state)
{
    (void)state;
    test_threads_run(3, pass_on, NULL);
    test_threads_check();
    assert_no_guards_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guarded_survives_without_a_pool),
        cmocka_unit_test(test_guarded_blocks_lie_against_a_guard),
        cmocka_unit_test(test_guarded_large_slots_run_out),
        cmocka_unit_test(test_guarded_blocks_are_samples),
        cmocka_unit_test(test_guarded_blocks_are_freed_by_usable_size),
        cmocka_unit_test(test_guarded_blocks_are_cleared),
        cmocka_unit_test(test_guarded_slots_run_out),
        cmocka_unit_test(test_guarded_slots_are_used_again_at_random),
        cmocka_unit_test(test_guarded_survives_a_kernel_that_refuses),
        cmocka_unit_test(test_guarded_uses_locked_slots_again),
        cmocka_unit_test(test_guarded_can_be_off),
        cmocka_unit_test(test_guarded_goes_on_after_fork),
        cmocka_unit_test(test_guarded_serves_threads),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("guarded", tests, NULL, NULL);
}
