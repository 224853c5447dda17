/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata arena: zeroed, aligned, disjoint records, the identity of its statistics after every
 * step, threads, and memory that runs out.
 */
#include "pagemap/arena.h"

#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/threads.h"

#include <string.h>

#define RECORDS 4000

struct record {
    unsigned char *p;
    size_t bytes;
};

static void assert_identity(void)
{
    struct sa_arena_stats s;

    sa_arena_stats(&s);
    assert_int_equal(s.mapped_bytes, s.allocated_bytes + s.unallocated_bytes + s.unavailable_bytes);
}

static bool is_zero(const unsigned char *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* Mostly small records, now and then one larger than a block. */
static size_t random_bytes(struct test_random *r)
{
    return test_random_below(r, 500) ? test_random_size(r, 12) : 200000 + test_random_size(r, 19);
}

static void test_arena_empty_at_first(void **state)
{
    struct sa_arena_stats s;

    (void)state;
    sa_arena_stats(&s);
    assert_int_equal(s.mapped_bytes, 0);
    assert_identity();
}

static void test_arena_records_are_zeroed_aligned_and_disjoint(void **state)
{
    static struct record records[RECORDS];
    struct test_random r = {0xa0001};
    size_t sum = 0;
    struct sa_arena_stats before, after;

    (void)state;
    sa_arena_stats(&before);
    for (size_t i = 0; i < RECORDS; i++) {
        size_t align = (size_t)1 << test_random_below(&r, 13);
        struct record *rec = &records[i];

        rec->bytes = random_bytes(&r);
        rec->p = sa_arena_alloc(rec->bytes, align);
        assert_non_null(rec->p);
        assert_int_equal((uintptr_t)rec->p % align, 0);
        assert_true(is_zero(rec->p, rec->bytes));
        memset(rec->p, (int)(i % 251 + 1), rec->bytes);
        sum += rec->bytes;
        assert_identity();
    }
    for (size_t i = 0; i < RECORDS; i++) /* would have been overwritten if two overlapped */
        for (size_t at = 0; at < records[i].bytes; at++)
            if (records[i].p[at] != i % 251 + 1)
                fail_msg("record %zu was changed at %zu", i, at);
    sa_arena_stats(&after);
    assert_int_equal(after.allocated_bytes - before.allocated_bytes, sum);
    assert_true(after.blocks > before.blocks);
}

static void allocate_in_thread(int index, void *arg)
{
    struct test_random r = {0xa0002 + (uint64_t)index};

    (void)arg;
    for (int i = 0; i < 3000; i++) {
        size_t bytes = test_random_size(&r, 10);
        unsigned char *p = sa_arena_alloc(bytes, 8);

        THREAD_CHECK(p != NULL && is_zero(p, bytes));
        memset(p, index + 1, bytes);
        THREAD_CHECK(p[0] == index + 1 && p[bytes - 1] == index + 1);
    }
}

static void test_arena_serves_threads(void **state)
{
    (void)state;
    test_threads_run(4, allocate_in_thread, NULL);
    test_threads_check();
    assert_identity();
}

/* What a small program touches fits few pages: its records lie side by side, whatever tables come
 * between. In the first block, which has room for all of this. */
static void test_arena_small_records_lie_together(void **state)
{
    unsigned char *records[32];

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(records); i++) {
        records[i] = sa_arena_alloc(64, 64);
        assert_non_null(records[i]);
        if (i % 8 == 0)
            assert_non_null(sa_arena_alloc(32768, 4096));
    }
    for (size_t i = 1; i < TEST_COUNT(records); i++)
        assert_int_equal(records[i] - records[i - 1], 64);
    assert_identity();
}

static void test_arena_fails_and_recovers_when_memory_runs_out(void **state)
{
    struct sa_arena_stats before, after;

    (void)state;
    sa_arena_stats(&before);
    test_faults.mmap_after = 0;
    assert_null(sa_arena_alloc(before.unallocated_bytes + 1, 1));
    sa_arena_stats(&after);
    assert_memory_equal(&before, &after, sizeof(before)); /* nothing changed */
    if (before.unallocated_bytes) /* what is left of the block is still served */
        assert_non_null(sa_arena_alloc(1, 1));
    assert_identity();
    test_faults_clear();
    assert_non_null(sa_arena_alloc(1 << 20, 4096));
    assert_identity();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arena_empty_at_first),
        cmocka_unit_test(test_arena_small_records_lie_together),
        cmocka_unit_test(test_arena_records_are_zeroed_aligned_and_disjoint),
        cmocka_unit_test(test_arena_serves_threads),
        cmocka_unit_test(test_arena_fails_and_recovers_when_memory_runs_out),
    };

    sa_vm_init();
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
