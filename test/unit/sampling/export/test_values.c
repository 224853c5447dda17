/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a profile: rows rounded once, sums over stacks, and what the public functions are
 * told of rows and totals, for every type.
 */
#include "sampling/export/values.h"

#include "alloc/os/vm.h"
#include "test/support/cmocka.h"
#include "test/support/made_profile.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const struct sa_by_stack *find(const struct sa_buffer *stacks, unsigned which)
{
    const struct sa_by_stack *s = (const struct sa_by_stack *)stacks->data;

    for (size_t i = 0; i < stacks->used / sizeof(*s); i++)
        if (s[i].stack == made_stack(which))
            return &s[i];
    return NULL;
}

/* A stack's numbers are the sums of its rows' whole numbers, and everything is the sum of the
 * stacks. */
static void test_values_add_up(void **state)
{
    (void)state;
    for (int type = 0; type <= SALLOC_PROFILE_LIFETIMES; type++) {
        const struct sa_profile *profile = made_profile(type);
        struct sa_buffer stacks = {NULL, 0, 0};
        struct sa_by_stack all, again;
        const struct sa_by_stack *s;

        assert_int_equal(sa_values_by_stack(profile, &stacks, &all), 0);
        assert_int_equal(stacks.used / sizeof(*s), MADE_STACKS);
        memset(&again, 0, sizeof(again));
        s = (const struct sa_by_stack *)stacks.data;
        for (size_t i = 0; i < MADE_STACKS; i++) {
            again.bytes += s[i].bytes;
            again.count += s[i].count;
            again.alloc_bytes += s[i].alloc_bytes;
            if (i)
                assert_true(s[i - 1].bytes >= s[i].bytes);
        }
        assert_int_equal(again.bytes, all.bytes);
        assert_int_equal(again.count, all.count);
        assert_int_equal(again.alloc_bytes, all.alloc_bytes);
        assert_int_equal(all.sums.samples + all.sums.certain, 31);
        assert_true(fabs(all.sums.bytes + all.sums.certain_bytes - 55883966) < 8);
        assert_int_equal(all.alloc_bytes != 0, type == SALLOC_PROFILE_HEAP);
        if (type == SALLOC_PROFILE_FRAGMENTATION) {
            assert_int_equal(find(&stacks, MADE_LIBC)->bytes, 0); /* it wastes nothing */
            assert_int_equal(all.inuse_bytes, 55883966);
        } else {
            assert_int_equal(find(&stacks, MADE_LIBC)->bytes, 5 * (8 << 20));
            assert_int_equal(all.bytes, 55883966);
        }
        sa_buffer_free(&stacks);
    }
}

/* Sums for estimates: of a stack, of all, of one that is not there. Totals count for allocations
 * only. */
static void test_profile_sums(void **state)
{
    struct sa_profile profile = *made_profile(SALLOC_PROFILE_HEAP);
    struct sa_stack other = {.depth = 0};
    struct sa_sums sums;

    (void)state;
    assert_true(sa_profile_sums(&profile, made_stack(MADE_LEAF), &sums));
    assert_int_equal(sums.samples, 11);
    assert_true(sa_profile_sums(&profile, made_stack(MADE_LIBC), &sums));
    assert_int_equal(sums.certain, 5);
    assert_true(sa_profile_sums(&profile, NULL, &sums));
    assert_int_equal(sums.samples, 26);
    assert_false(sa_profile_sums(&profile, &other, &sums));
    profile.type = SALLOC_PROFILE_ALLOCATIONS;
    profile.bucket_count = 0;
    assert_true(sa_profile_sums(&profile, made_stack(MADE_LEAF), &sums));
    assert_int_equal(sums.samples, 40);
    assert_false(sa_profile_sums(&profile, made_stack(MADE_LIBC), &sums));
    assert_true(sa_profile_sums(&profile, NULL, &sums));
    assert_int_equal(sums.samples, 81);
}

/* Only what a type of profile tells of is filled in. */
static void test_profile_public_buckets(void **state)
{
    struct salloc_profile_sample s;
    const struct sa_profile *p;

    (void)state;
    p = made_profile(SALLOC_PROFILE_HEAP);
    sa_profile_bucket_sample(p, &p->buckets[4], &s);
    assert_int_equal(s.depth, 2);
    assert_ptr_equal(s.stack, made_stack(MADE_LIBC)->pc);
    assert_int_equal(s.kind, SALLOC_KIND_NEW);
    assert_int_equal(s.requested_size, (8 << 20) - 1);
    assert_true(s.inuse_bytes == 5.0 * (8 << 20) && s.inuse_count == 5 && s.alloc_count == 0);
    assert_true(s.resident_bytes == 5e6 && s.swapped_bytes == 4096 && s.probability == 1);
    assert_true(s.locked_bytes == 3e6 && s.zero_bytes == 2e6);
    assert_true(s.same_cpu == -1 && s.same_thread == -1 && !s.free_stack && !s.censored);
    assert_true(s.same_vcpu == -1 && s.same_l3 == -1 && s.same_numa == -1);
    assert_int_equal(s.guarded_status, SALLOC_GUARDED_LARGER_THAN_ONE_PAGE);
    sa_profile_total_sample(p, &p->totals[0], &s);
    assert_true(s.allocated_size == 0 && s.samples == 40 && s.inuse_bytes == 0);
    assert_true(fabs(s.alloc_bytes - 20972780) < 1 && s.alloc_count * 64 == s.alloc_bytes);

    p = made_profile(SALLOC_PROFILE_FRAGMENTATION);
    sa_profile_bucket_sample(p, &p->buckets[5], &s); /* a quarter of 5 blocks free per live one */
    assert_true(fabs(s.fragmentation_bytes / s.inuse_bytes - 1.25) < 1e-12);

    p = made_profile(SALLOC_PROFILE_ALLOCATIONS);
    sa_profile_bucket_sample(p, &p->buckets[4], &s);
    assert_true(s.alloc_bytes == 5.0 * (8 << 20) && s.inuse_bytes == 0);

    p = made_profile(SALLOC_PROFILE_LIFETIMES);
    sa_profile_bucket_sample(p, &p->buckets[0], &s);
    assert_ptr_equal(s.free_stack, made_stack(MADE_LIBC)->pc);
    assert_true(s.same_cpu == 0 && s.same_thread == 1 && s.inuse_count == 0 && s.alloc_count > 0);
    assert_true(s.same_vcpu == -1 && s.same_l3 == 1 && s.same_numa == 1);
    assert_true(s.lifetime_mean == 1e6 && fabs(s.lifetime_deviation - 2e5) < 1);
    assert_int_equal(s.lifetime_max, 1200000);
    sa_profile_bucket_sample(p, &p->buckets[3], &s);
    assert_true(s.censored && !s.free_stack && s.same_thread == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_add_up),
        cmocka_unit_test(test_profile_sums),
        cmocka_unit_test(test_profile_public_buckets),
    };

    sa_vm_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
