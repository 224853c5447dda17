/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of profile rows: one row for each key, whatever in it differs; references to stacks;
 * growth that loses nothing; the bound; memory that runs out.
 */
#include "sampling/profile/profile_buckets.h"

#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/start.h"

static struct sa_stack *stack(uintptr_t n)
{
    uintptr_t pc[] = {n, n * 7, 3};

    return sa_stack_intern(pc, 3);
}

static struct sa_bucket_key key_of(struct sa_stack *s, size_t requested)
{
    return (struct sa_bucket_key){.stack = s,
                                  .p = 0.5,
                                  .interval = 100,
                                  .allocated = 64,
                                  .requested = requested,
                                  .same_cpu = -1,
                                  .same_thread = -1};
}

static void test_profile_buckets_tell_all_keys_apart(void **state)
{
    struct sa_buckets buckets = {0};
    struct sa_stack *a = stack(1), *b = stack(2);
    struct sa_bucket_key keys[17], base = key_of(a, 60);
    struct sa_bucket *found[TEST_COUNT(keys)];

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(keys); i++)
        keys[i] = base;
    keys[1].stack = b;
    keys[2].free_stack = b;
    keys[3].p = 0.25;
    keys[4].interval = 101;
    keys[5].allocated = 80;
    keys[6].requested = 61;
    keys[7].align = 64;
    keys[8].kind = 1;
    keys[9].censored = 1;
    keys[10].same_cpu = 1;
    keys[11].guarded = SALLOC_GUARDED_GUARDED;
    keys[12].same_vcpu = 1;
    keys[13].same_l3 = 1;
    keys[14].same_numa = 1;
    keys[15].tid = 1;
    keys[16].free_tid = 1;
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        found[i] = sa_buckets_find(&buckets, &keys[i]);
        assert_non_null(found[i]);
        assert_int_equal(buckets.count, i + 1);
        assert_int_equal(found[i]->samples, 0);
        assert_true(found[i]->life_sum == 0 && found[i]->offsets == 0 && found[i]->resident == 0);
        found[i]->samples = i + 1;
    }
    keys[10].same_thread = 1;
    assert_int_equal(sa_buckets_find(&buckets, &keys[10])->samples, 0);
    keys[10].same_thread = -1;
    for (size_t i = 0; i < TEST_COUNT(keys); i++) {
        struct sa_bucket *again = sa_buckets_find(&buckets, &keys[i]);

        assert_ptr_equal(again, found[i]);
        assert_int_equal(again->samples, i + 1);
        assert_memory_equal(&again->key, &keys[i], sizeof(keys[i]));
    }
    assert_int_equal(buckets.count, 18);
    sa_buckets_free(&buckets);
    assert_true(buckets.count == 0 && buckets.cap == 0 && buckets.buckets == NULL);
    sa_stack_unref(a);
    sa_stack_unref(b);
}

/* One reference for each row and stack, however often it is found; given up with the table. */
static void test_profile_buckets_hold_references(void **state)
{
    struct sa_buckets buckets = {0};
    struct sa_stack *a = stack(3), *b = stack(4);
    struct sa_bucket_key key = key_of(a, 1);
    uint32_t a_before = a->references, b_before = b->references;

    (void)state;
    sa_buckets_find(&buckets, &key);
    sa_buckets_find(&buckets, &key);
    assert_int_equal(a->references, a_before + 1);
    key.free_stack = b;
    sa_buckets_find(&buckets, &key);
    sa_buckets_find(&buckets, &key);
    assert_int_equal(a->references, a_before + 2);
    assert_int_equal(b->references, b_before + 1);
    key.free_stack = &sa_stack_unknown;
    sa_buckets_find(&buckets, &key);
    sa_buckets_free(&buckets);
    assert_int_equal(a->references, a_before);
    assert_int_equal(b->references, b_before);
    sa_stack_unref(a);
    sa_stack_unref(b);
}

/* Up to the bound, every row stays what it was; beyond, samples are counted as dropped. */
static void test_profile_buckets_grow_to_the_bound(void **state)
{
    struct sa_buckets buckets = {0};
    struct sa_stack *a = stack(5);

    (void)state;
    for (size_t i = 0; i < SA_BUCKETS_MAX; i++) {
        struct sa_bucket_key key = key_of(a, i);
        struct sa_bucket *bucket = sa_buckets_find(&buckets, &key);

        if (!bucket)
            fail_msg("row %zu", i);
        bucket->samples = i;
    }
    assert_int_equal(buckets.count, SA_BUCKETS_MAX);
    assert_int_equal(buckets.dropped, 0);
    for (size_t i = 0; i < SA_BUCKETS_MAX + 10; i++) {
        struct sa_bucket_key key = key_of(a, i);
        struct sa_bucket *bucket = sa_buckets_find(&buckets, &key);

        if (i < SA_BUCKETS_MAX ? !bucket || bucket->samples != i : bucket != NULL)
            fail_msg("row %zu", i);
    }
    assert_int_equal(buckets.count, SA_BUCKETS_MAX);
    assert_int_equal(buckets.dropped, 10);
    sa_buckets_free(&buckets);
    assert_int_equal(a->references, 1);
    sa_stack_unref(a);
}

/* No memory: what is there can be found, new rows are dropped and counted; later it goes on. */
static void test_profile_buckets_without_memory(void **state)
{
    struct sa_buckets buckets = {0};
    struct sa_stack *a = stack(6);
    struct sa_bucket_key key = key_of(a, 0);
    size_t n = 0;

    (void)state;
    test_faults.mmap_after = 0;
    assert_null(sa_buckets_find(&buckets, &key));
    assert_int_equal(buckets.dropped, 1);
    test_faults_clear();
    assert_non_null(sa_buckets_find(&buckets, &key));
    test_faults.mmap_after = 0;
    for (key.requested = 0; sa_buckets_find(&buckets, &key); key.requested++)
        n++;
    assert_int_equal(n, buckets.count);
    assert_int_equal(buckets.dropped, 2);
    assert_int_equal(a->references, 1 + n);
    for (key.requested = 0; key.requested < n; key.requested++)
        assert_non_null(sa_buckets_find(&buckets, &key));
    test_faults_clear();
    assert_non_null(sa_buckets_find(&buckets, &key));
    assert_int_equal(buckets.count, n + 1);
    sa_buckets_free(&buckets);
    assert_int_equal(a->references, 1);
    sa_stack_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_buckets_tell_all_keys_apart),
        cmocka_unit_test(test_profile_buckets_hold_references),
        cmocka_unit_test(test_profile_buckets_grow_to_the_bound),
        cmocka_unit_test(test_profile_buckets_without_memory),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
