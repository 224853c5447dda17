/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings of allocations and lifetimes: the samples of each, stale, wrong and excess handles,
 * and times to the nanosecond, because the clock is the test's. */
#include "sampling/record/recording.h"

#include "alloc/os/rseq.h"
#include "alloc/os/thread.h"
#include "sampling/snapshot/profile_snapshot.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/samples.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>

static uint64_t now_ns = 1000000000000; /* atomic */

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    (void)clock;
    return __atomic_load_n(&now_ns, __ATOMIC_RELAXED);
}

/* See faults.c. */
int __real_sa_sys_munmap(void *p, size_t bytes);
int __wrap_sa_sys_munmap(void *p, size_t bytes);

int __wrap_sa_sys_munmap(void *p, size_t bytes)
{
    __atomic_fetch_add(&test_faults.mmap_calls, 0, __ATOMIC_RELEASE);
    return __real_sa_sys_munmap(p, bytes);
}

static struct sa_profile *stop_recording(uint64_t handle)
{
    int error = 0;
    struct sa_profile *p = sa_snapshot_stop(handle, &error);

    if (!p)
        fail_msg("error %d", error);
    return p;
}

static void assert_stop_fails(uint64_t handle, int expected)
{
    int error = 0;

    assert_null(sa_snapshot_stop(handle, &error));
    assert_int_equal(error, expected);
}

static uint64_t samples_in(const struct sa_profile *p)
{
    uint64_t n = 0;

    for (size_t i = 0; i < p->bucket_count; i++)
        n += p->buckets[i].samples;
    return n;
}

/* Handles that were never started, were stopped before, name a reused slot, or are no handles. */
static void test_recording_refuses_wrong_handles(void **state)
{
    static const uint64_t never[] = {0, 1, 63, 64, 65, 12345, UINT64_MAX, UINT64_MAX - 63};
    uint64_t a = sa_live_start(SALLOC_PROFILE_ALLOCATIONS), b;

    (void)state;
    assert_true(a != 0);
    for (size_t i = 0; i < TEST_COUNT(never); i++)
        if (never[i] != a)
            assert_stop_fails(never[i], EINVAL);
    sa_profile_free(stop_recording(a));
    assert_stop_fails(a, EINVAL);
    b = sa_live_start(SALLOC_PROFILE_LIFETIMES);
    assert_true(b != a);
    assert_stop_fails(a, EINVAL);
    sa_profile_free(stop_recording(b));
    assert_stop_fails(b, EINVAL);
    assert_stop_fails(a, EINVAL);
}

/* 64 recordings run at once and stop in any order. Each has the samples of its own time alone. */
static void test_recording_runs_64_at_once(void **state)
{
    uint64_t handle[SA_RECORDINGS + 1];
    struct sa_sample *s[SA_RECORDINGS];

    (void)state;
    for (size_t i = 0; i < SA_RECORDINGS; i++) {
        handle[i] = sa_live_start(i % 2 ? SALLOC_PROFILE_LIFETIMES : SALLOC_PROFILE_ALLOCATIONS);
        assert_true(handle[i] != 0);
        for (size_t k = 0; k < i; k++)
            assert_true(handle[k] != handle[i]);
        s[i] = sample_add(i, 64, 0.5); /* in recordings 0 .. i */
    }
    assert_int_equal(sa_live_start(SALLOC_PROFILE_ALLOCATIONS), 0);
    assert_int_equal(sa_live_start(SALLOC_PROFILE_LIFETIMES), 0);
    for (size_t i = 0; i < SA_RECORDINGS; i++) {
        size_t k = i * 37 % SA_RECORDINGS;
        struct sa_profile *p = stop_recording(handle[k]);

        assert_int_equal(p->type, k % 2 ? SALLOC_PROFILE_LIFETIMES : SALLOC_PROFILE_ALLOCATIONS);
        assert_int_equal(samples_in(p), SA_RECORDINGS - k);
        assert_int_equal(p->samples_dropped, 0);
        sa_profile_free(p);
        assert_stop_fails(handle[k], EINVAL);
        if (i == 10) { /* one is free again, once */
            handle[SA_RECORDINGS] = sa_live_start(SALLOC_PROFILE_ALLOCATIONS);
            assert_true(handle[SA_RECORDINGS] != 0);
        }
    }
    assert_int_equal(samples_in(stop_recording(handle[SA_RECORDINGS])), 0);
    for (size_t i = 0; i < SA_RECORDINGS; i++)
        sa_live_remove(s[i], NULL);
    assert_false(sa_live_wants_free_stacks());
}

static void test_recording_of_allocations(void **state)
{
    struct sa_sample *before = sample_add(1, 64, 0.5), *s[30];
    uint64_t handle = sa_live_start(SALLOC_PROFILE_ALLOCATIONS);
    struct sa_profile *p;

    (void)state;
    assert_false(sa_live_wants_free_stacks());
    for (size_t i = 0; i < TEST_COUNT(s); i++) {
        s[i] = sample_add(i % 3, i % 2 ? 64 : 128, 0.5);
        if (i % 5)
            sa_live_remove(s[i], NULL);
    }
    sa_live_remove(before, NULL);
    now_ns += 12345;
    p = stop_recording(handle);
    s[1] = sample_add(1, 64, 0.5);
    assert_int_equal(p->time_ns, now_ns - 12345);
    assert_int_equal(p->duration_ns, 12345);
    assert_int_equal(p->bucket_count, 6); /* 3 sites, 2 sizes */
    for (size_t i = 0; i < p->bucket_count; i++) {
        assert_int_equal(p->buckets[i].samples, 5);
        assert_true(p->buckets[i].offsets == 10 && p->buckets[i].hits == 15);
        assert_true(p->buckets[i].key.free_stack == NULL && !p->buckets[i].key.censored);
    }
    sa_profile_free(p);
    sa_live_remove(s[1], NULL);
    for (size_t i = 0; i < TEST_COUNT(s); i += 5)
        sa_live_remove(s[i], NULL);
}

/* Lifetimes of one kind of blocks: minimum, maximum, sum and sum of squares are those that were
 * drawn. */
static void test_recording_measures_lifetimes(void **state)
{
    struct test_random r = {0x11fe7};
    uint64_t handle, min = UINT64_MAX, max = 0;
    double sum = 0, squares = 0;
    struct sa_profile *p;
    struct salloc_profile_sample view;

    (void)state;
    handle = sa_live_start(SALLOC_PROFILE_LIFETIMES);
    assert_true(sa_live_wants_free_stacks());
    for (int i = 0; i < 500; i++) {
        struct sa_sample *s = sample_add(1, 64, 0.5);
        uint64_t life = test_random_size(&r, 40);

        now_ns += life;
        sa_live_remove(s, stack_of(2));
        min = life < min ? life : min;
        max = life > max ? life : max;
        sum += (double)life;
        squares += (double)life * (double)life;
    }
    p = stop_recording(handle);
    assert_false(sa_live_wants_free_stacks());
    assert_int_equal(p->bucket_count, 1);
    assert_int_equal(p->buckets[0].samples, 500);
    assert_int_equal(p->buckets[0].life_min, min);
    assert_int_equal(p->buckets[0].life_max, max);
    sa_profile_bucket_sample(p, &p->buckets[0], &view);
    assert_true(fabs(view.lifetime_mean - sum / 500) < 1e-9 * sum / 500);
    assert_true(fabs(view.lifetime_deviation - sqrt(squares / 500 - sum / 500 * sum / 500)) <
                1e-6 * sum / 500);
    assert_true(view.free_stack && view.free_depth == 3);
    assert_int_equal((uintptr_t)view.free_stack[0], 0x1002);
    assert_true(view.same_cpu == 1 && view.same_thread == 1 && !view.censored);
    assert_true(view.alloc_count == 1000 && view.alloc_bytes == 64000);
    sa_profile_free(p);
}

/* A lifetime of 0 counts, and is the minimum. */
static void test_recording_knows_lifetimes_of_0(void **state)
{
    uint64_t handle = sa_live_start(SALLOC_PROFILE_LIFETIMES);
    struct sa_profile *p;

    (void)state;
    sa_live_remove(sample_add(1, 64, 0.5), NULL);
    now_ns += 100;
    for (int i = 0; i < 2; i++) {
        struct sa_sample *s = sample_add(1, 64, 0.5);

        now_ns += 100;
        sa_live_remove(s, NULL);
    }
    p = stop_recording(handle);
    assert_int_equal(p->bucket_count, 1);
    assert_int_equal(p->buckets[0].life_min, 0);
    assert_int_equal(p->buckets[0].life_max, 100);
    assert_ptr_equal(p->buckets[0].key.free_stack, &sa_stack_unknown);
    sa_profile_free(p);
}

/* The only row of a recording. */
static struct salloc_profile_sample only_row(uint64_t handle, struct sa_bucket_key *ret_key)
{
    struct sa_profile *p = stop_recording(handle);
    struct salloc_profile_sample view;

    assert_int_equal(p->bucket_count, 1);
    sa_profile_bucket_sample(p, &p->buckets[0], &view);
    *ret_key = p->buckets[0].key;
    sa_profile_free(p);
    return view;
}

/* Same or other CPU, virtual CPU, L3 cache, node and thread, each by itself. The test stays on
 * one CPU. */
static void test_recording_tells_who_freed(void **state)
{
    struct sa_place here, after;

    (void)state;
    for (int other = 0; other < 5; other++) {
        uint64_t handle = sa_live_start(SALLOC_PROFILE_LIFETIMES);
        struct sa_sample *s = sample_add(1, 64, 0.5);
        struct salloc_profile_sample view;
        struct sa_bucket_key key;

        sa_place_here(&here);
        assert_true(s->place.cpu == here.cpu && s->place.node == here.node);
        s->place.vcpu = here.vcpu;
        if (other == 1)
            s->place.cpu = (int16_t)(here.cpu + 1);
        if (other == 2)
            s->place.vcpu = (int16_t)(here.vcpu + 1);
        if (other == 3)
            s->place.node = (int16_t)(here.node + 1);
        if (other == 4)
            s->thread = 0;
        sa_live_remove(s, NULL);
        sa_place_here(&after);
        view = only_row(handle, &key);
        assert_int_equal(view.same_cpu, other != 1);
        if (after.vcpu == here.vcpu) /* the kernel may change it whenever it likes */
            assert_int_equal(view.same_vcpu, here.vcpu < 0 ? -1 : other != 2);
        assert_int_equal(view.same_numa, other != 3);
        assert_int_equal(view.same_thread, other != 4);
        if (other != 1)
            assert_int_equal(view.same_l3, sa_place_l3(here.cpu) < 0 ? -1 : 1);
    }
}

/* Where the kernel does not tell, the row says unknown: neither different, nor not freed. */
static void test_recording_tells_what_is_not_known(void **state)
{
    uint64_t handle = sa_live_start(SALLOC_PROFILE_LIFETIMES);
    struct sa_sample *s = sample_add(1, 64, 0.5);
    struct salloc_profile_sample view;
    struct sa_bucket_key key;

    (void)state;
    s->place = (struct sa_place){SA_SLABS - 1, -1, -1}; /* a CPU of which nothing was read */
    sa_live_remove(s, NULL);
    view = only_row(handle, &key);
    assert_true(key.same_vcpu == SA_SAME_UNKNOWN && key.same_l3 == SA_SAME_UNKNOWN &&
                key.same_numa == SA_SAME_UNKNOWN);
    assert_true(view.same_vcpu == -1 && view.same_l3 == -1 && view.same_numa == -1);
    assert_true(view.same_cpu == 0 && view.same_thread == 1);
}

/* A new thread on the stack of an ended one is another thread. The CPU is the same. */
static void *add_in_thread(void *sample)
{
    *(struct sa_sample **)sample = sample_add(1, 64, 0.5);
    return sa_thread_pointer();
}

static void *remove_in_thread(void *sample)
{
    if (!sa_rseq.per_cpu)
        sa_thread.area.cpu_id = 5; /* the number of its cache, which is not a CPU */
    sa_live_remove(sample, NULL);
    return sa_thread_pointer();
}

static void test_recording_tells_threads_apart(void **state)
{
    uint64_t handle = sa_live_start(SALLOC_PROFILE_LIFETIMES);
    void *first, *second;
    struct sa_sample *s;
    struct sa_profile *p;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, add_in_thread, &s), 0);
    pthread_join(thread, &first);
    assert_int_equal(pthread_create(&thread, NULL, remove_in_thread, s), 0);
    pthread_join(thread, &second);
    p = stop_recording(handle);
    assert_int_equal(p->bucket_count, 1);
    assert_int_equal(p->buckets[0].key.same_thread, 0);
    assert_int_equal(p->buckets[0].key.same_cpu, 1); /* the test stays on one */
    sa_profile_free(p);
    if (first != second)
        TEST_SKIP("the second thread has a stack of its own");
}

/* A recording has only samples that were allocated while it ran. Those live at the stop are
 * reported apart, with their age. */
static void test_recording_reports_censored_apart(void **state)
{
    struct sa_sample *before[2] = {sample_add(1, 64, 0.5), sample_add(1, 64, 0.5)}, *s[10];
    uint64_t handle;
    struct sa_profile *p;

    (void)state;
    now_ns += 1000;
    handle = sa_live_start(SALLOC_PROFILE_LIFETIMES);
    for (size_t i = 0; i < TEST_COUNT(s); i++) {
        s[i] = sample_add(1, 64, 0.5);
        now_ns += 10;
    }
    sa_live_remove(before[0], NULL);
    for (size_t i = 0; i < 4; i++)
        sa_live_remove(s[i], NULL);
    p = stop_recording(handle);
    assert_int_equal(p->bucket_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sa_bucket *bucket = &p->buckets[i];
        struct salloc_profile_sample view;

        sa_profile_bucket_sample(p, bucket, &view);
        assert_int_equal(bucket->samples, bucket->key.censored ? 6 : 4);
        assert_int_equal(bucket->life_min, bucket->key.censored ? 10 : 70);
        assert_int_equal(bucket->life_max, bucket->key.censored ? 60 : 100);
        assert_true(bucket->life_sum == (bucket->key.censored ? 210 : 340));
        if (bucket->key.censored)
            assert_true(view.censored && !view.free_stack && view.same_cpu == -1 &&
                        view.same_thread == -1 && bucket->key.same_l3 == SA_SAME_NONE);
    }
    sa_profile_free(p);
    sa_live_remove(before[1], NULL);
    for (size_t i = 4; i < TEST_COUNT(s); i++)
        sa_live_remove(s[i], NULL);
}

/* Without memory a stop fails, and the recording continues. Samples without room are counted. */
static void test_recording_without_memory(void **state)
{
    uint64_t handle = sa_live_start(SALLOC_PROFILE_ALLOCATIONS);
    struct sa_sample *s[3];
    struct sa_profile *p = NULL;
    int error;

    (void)state;
    s[0] = sample_add(1, 64, 0.5);
    for (long after = 0; after < 2; after++) {
        test_faults.mmap_after = after;
        assert_null(sa_snapshot_stop(handle, &error));
        assert_int_equal(error, ENOMEM);
        test_faults_clear();
    }
    s[1] = sample_add(1, 64, 0.5);
    p = stop_recording(handle);
    assert_int_equal(samples_in(p), 2);
    sa_profile_free(p);
    handle = sa_live_start(SALLOC_PROFILE_ALLOCATIONS);
    test_faults.mmap_after = 0;
    s[2] = sample_add(1, 64, 0.5);
    test_faults_clear();
    assert_non_null(s[2]);
    p = stop_recording(handle);
    assert_int_equal(samples_in(p), 0);
    assert_int_equal(p->samples_dropped, 1);
    sa_profile_free(p);
    for (int i = 0; i < 3; i++)
        sa_live_remove(s[i], NULL);
}

/* Threads start, use and stop their own recordings. Each recording has at least the samples of
 * its thread. */
static void start_and_stop(int index, void *arg)
{
    struct test_random r = {0x5a2 + (uint64_t)index};

    (void)arg;
    for (int i = 0; i < 1500; i++) {
        bool lifetimes = test_random_below(&r, 2);
        uint64_t handle =
            sa_live_start(lifetimes ? SALLOC_PROFILE_LIFETIMES : SALLOC_PROFILE_ALLOCATIONS);
        uint64_t own = 0, all = 0;
        struct sa_sample *s[4];
        struct sa_profile *p;
        int error;

        THREAD_CHECK(handle != 0);
        for (int k = 0; k < 4; k++)
            s[k] = sample_add((uintptr_t)index, 64, 0.5);
        for (int k = 0; k < 2; k++)
            sa_live_remove(s[k], NULL);
        p = sa_snapshot_stop(handle, &error);
        THREAD_CHECK(p != NULL);
        for (size_t k = 0; p && k < p->bucket_count; k++) {
            uintptr_t site = p->buckets[k].key.stack->pc[0] - 0x1000;

            own += site == (uintptr_t)index ? p->buckets[k].samples : 0;
            all += p->buckets[k].samples;
        }
        THREAD_CHECK(own == 4 && all >= own);
        THREAD_CHECK(!sa_snapshot_stop(handle, &error) && error == EINVAL);
        if (p)
            sa_profile_free(p);
        sa_live_remove(s[2], NULL);
        sa_live_remove(s[3], NULL);
    }
}

static void test_recording_by_many_threads(void **state)
{
    struct sa_live_stats stats;

    (void)state;
    test_threads_run(4, start_and_stop, NULL);
    test_threads_check();
    sa_live_stats(&stats);
    assert_int_equal(stats.samples, 0);
    assert_false(sa_live_wants_free_stacks());
}

/* A profile has the number of samples whose stack was evicted, and so do its totals: here all
 * stacks are without room. */
static void test_profile_tells_of_evicted_stacks(void **state)
{
    enum { MANY = 100000 };
    struct sa_stack_stats stacks;
    struct sa_profile *profile;
    const struct sa_total *last;
    int error;

    (void)state;
    sa_stack_stats(&stacks);
    sa_stack_table_limit(stacks.bytes + (1 << 20));
    for (uintptr_t site = 0; site < MANY; site++)
        sample_remove(sample_add(1000000 + site, 16, 0.5));
    profile = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_non_null(profile);
    last = &profile->totals[profile->total_count - 1];
    assert_ptr_equal(last->stack, &sa_stack_unknown);
    assert_in_range(profile->stacks_evicted, MANY / 2, MANY);
    assert_int_equal(profile->stacks_dropped + profile->stacks_evicted,
                     last->sums.samples + last->sums.certain);
    sa_profile_free(profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording_refuses_wrong_handles),
        cmocka_unit_test(test_recording_runs_64_at_once),
        cmocka_unit_test(test_recording_of_allocations),
        cmocka_unit_test(test_recording_measures_lifetimes),
        cmocka_unit_test(test_recording_knows_lifetimes_of_0),
        cmocka_unit_test(test_recording_tells_who_freed),
        cmocka_unit_test(test_recording_tells_what_is_not_known),
        cmocka_unit_test(test_recording_tells_threads_apart),
        cmocka_unit_test(test_recording_reports_censored_apart),
        cmocka_unit_test(test_recording_without_memory),
        cmocka_unit_test(test_recording_by_many_threads),
        cmocka_unit_test(test_profile_tells_of_evicted_stacks), /* the table stays full */
    };

    test_start_layers();
    test_pin();
    return cmocka_run_group_tests_name("recording", tests, NULL, NULL);
}
