/* SPDX-License-Identifier: Apache-2.0 */
/* Sampled blocks through the front end: their pages, proxies, an empty heap after all frees,
 * lack of memory, fork and threads. At interval 1 every block is sampled, so that live bytes are
 * known exactly. */
#include "test/support/sampled.h"

#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/os/thread.h"
#include "sampling/snapshot/profile_snapshot.h"
#include "test/support/child.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"
#include "test/support/traffic.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_sampler_gives_pages_of_their_own(void **state)
{
    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        size_t size = sa_size_classes.of[cls].size;
        unsigned char *p = sa_front_alloc(size - 1, 1, false), *q = sa_front_alloc(size, 1, true);
        const struct sa_span *s = sa_pagemap_find((uintptr_t)p);

        assert_true(p && q && own_page(p) && own_page(q));
        assert_int_equal((uintptr_t)p % SA_PAGE_BYTES, 0);
        assert_int_equal(sa_front_size(p, "test"), size);
        assert_int_equal(sa_front_size_if_ours(p), size);
        assert_int_equal(sa_front_size_if_ours(p + 1), 0);
        assert_int_equal(sa_front_size_if_ours(p + 16), 0);
        assert_int_equal(sa_pagemap_class((uintptr_t)p), 0);
        assert_true(s && s->start == (uintptr_t)p && sa_span_bytes(s) >= size);
        assert_int_equal(sa_sampler_class(s), cls);
        assert_int_equal(sampled_in_use(), 2 * sa_align_up(size, SA_PAGE_BYTES));
        assert_int_equal(live().samples, 2);
        assert_true(live().bytes == 2.0 * (double)size);
        assert_true(is_zero(q, size));
        fill(p, size, cls);
        fill(q, size, cls + 1);
        assert_filled(p, size, cls);
        sa_front_free(p);
        assert_filled(q, size, cls + 1);
        sa_front_free_sized(q, size, 0);
    }
    assert_nothing_left();
}

/* The proxy is an object of the class that nobody else gets while the block lives. */
static void test_sampler_keeps_proxies(void **state)
{
    enum { N = 2000 };
    static void *sampled[N], *others[N];
    struct sa_copied copied;

    (void)state;
    for (int i = 0; i < N; i++)
        sampled[i] = sa_front_alloc(100, 1, false);
    set_interval(0);
    for (int i = 0; i < N; i++)
        others[i] = sa_front_alloc(100, 1, false);
    for (int i = 0; i < N; i++) {
        const struct sa_sample *s = sa_pagemap_find((uintptr_t)sampled[i])->sample;

        assert_true(own_page(sampled[i]) && !own_page(others[i]) && !own_page(s->proxy));
        assert_int_equal(sa_front_size_if_ours(s->proxy), 112);
        for (int k = 0; k < N; k += 97)
            assert_true(s->proxy != others[(i + k) % N]);
        memset(others[i], 1, 100);
    }
    assert_true(sa_live_copy(false, &copied));
    assert_int_equal(copied.count, N);
    for (size_t i = 0; i < copied.count; i++) {
        assert_int_equal(copied.samples[i].key.allocated, 112);
        assert_int_equal(copied.samples[i].key.requested, 100);
        assert_int_equal(copied.samples[i].key.align, 0);
        assert_true(copied.samples[i].key.p == 1 && copied.samples[i].offset == 1 &&
                    copied.samples[i].hits == 112);
        assert_true(copied.samples[i].waste >= 0 && copied.samples[i].waste < 1);
    }
    sa_live_free_copied(&copied);
    for (int i = 0; i < N; i++) {
        sa_front_free(sampled[i]);
        sa_front_free(others[i]);
    }
    assert_nothing_left();
    set_interval(1);
}

/* What central free lists, caches and samples say of a class: objects that are out, and blocks that
 * are on none. */
static size_t objects_out(unsigned cls)
{
    struct sa_cpu_class_stats cpu;
    struct sa_transfer_stats transfer;
    struct sa_central_stats central;

    sa_cpu_cache_class_stats(cls, &cpu);
    sa_transfer_stats(cls, &transfer);
    sa_central_stats(cls, &central);
    return central.spans * sa_size_classes.of[cls].objects - central.free_objects -
           transfer.objects - cpu.objects;
}

/* A sampled block is in use once: an object is held for it, or none is. */
static void test_sampler_holds_no_second_block(void **state)
{
    enum { N = 200 };
    void *p[N];

    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        const struct sa_class *k = &sa_size_classes.of[cls];
        struct sa_rate max = {.p = 0.125}, more = {.p = 0.126};
        struct sa_central_stats central;
        enum sa_proxy rare = sa_sampler_proxy(cls, &max), often = sa_sampler_proxy(cls, &more);

        assert_int_equal(often, k->objects == 1 ? SA_PROXY_NONE : SA_PROXY_HELD);
        assert_int_equal(rare, k->objects > 1 && k->size > SA_PAGE_BYTES && k->objects <= 64
                                   ? SA_PROXY_LENT
                                   : often);
        for (int lent = 0; lent <= (rare == SA_PROXY_LENT); lent++) {
            size_t apart = 0;

            set_interval(lent ? 8 * (int64_t)k->size : 1);
            for (int i = 0; i < N; i++) {
                p[i] = sa_front_alloc(k->size, 1, false);
                assert_non_null(p[i]);
                apart += own_page(p[i]) && (lent || often == SA_PROXY_NONE);
            }
            assert_true(live().samples > 0); /* of 200 at p = 0.118: none once in 10^10 */
            assert_int_equal(sa_sampler_apart(cls), apart);
            assert_int_equal(objects_out(cls), N - apart);
            for (int i = 0; i < N; i++)
                if (!own_page(p[i]))
                    sa_front_free(p[i]);
            sa_maintenance_release(PTRDIFF_MAX);
            sa_central_stats(cls, &central);
            assert_true(lent ? central.spans > 0 : central.free_objects < N * k->objects);
            for (int i = 0; i < N; i++)
                if (own_page(p[i]))
                    sa_front_free(p[i]);
            assert_int_equal(sa_sampler_apart(cls), 0);
            assert_nothing_left();
        }
    }
    set_interval(1);
}

static void test_sampler_aligns(void **state)
{
    static const size_t sizes[] = {1, 16, 100, 5000, 70000, 262144, 262145, 3 * MIB};

    (void)state;
    for (size_t align = 1; align <= 4 * MIB; align *= 2) {
        for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
            unsigned char *p = sa_front_alloc(sizes[i], align, false), *q;
            const struct sa_span *s = sa_pagemap_find((uintptr_t)p);

            assert_true(p && s && s->sample);
            assert_int_equal((uintptr_t)p & (align - 1), 0);
            assert_int_equal(s->sample != NULL, 1);
            assert_true(sa_front_size(p, "test") >= sizes[i]);
            assert_true(live().bytes == (double)sa_front_size(p, "test"));
            fill(p, sizes[i], 5);
            q = sa_front_alloc(sizes[i], align, true);
            assert_true(q && ((uintptr_t)q & (align - 1)) == 0 && is_zero(q, sizes[i]));
            assert_filled(p, sizes[i], 5);
            sa_front_free_sized(q, sizes[i], align);
            sa_front_free(p);
        }
    }
    assert_nothing_left();
}

/* Pages come back dirty and are cleared for calloc. */
static void test_sampler_zeroes(void **state)
{
    struct test_random r = {0x2e20};

    (void)state;
    for (int round = 0; round < 3000; round++) {
        size_t size = test_random_size(&r, 20);
        unsigned char *p = sa_front_alloc(size, 1, true);

        assert_true(p && is_zero(p, size));
        memset(p, 0xaa, sa_front_size(p, "test"));
        sa_front_free(p);
        if (round % 300 == 0)
            sa_maintenance_release(PTRDIFF_MAX);
    }
    assert_nothing_left();
}

/* --- what may not be sampled, and faults
 * ------------------------------------------------------- */

/* Inside the sampler nothing is sampled, and no trial counts as failed. */
static void test_sampler_does_not_sample_itself(void **state)
{
    uint64_t before = taken().taken;
    void *p, *q;

    (void)state;
    sa_thread.sampling = 1;
    p = sa_front_alloc(100, 1, false);
    q = sa_front_alloc(MIB, 1, false);
    sa_thread.sampling = 0;
    assert_true(p && q && !own_page(p));
    assert_int_equal(live().samples, 0);
    assert_int_equal(taken().taken, before);
    assert_int_equal(taken().failed, 0);
    sa_front_free(p);
    sa_front_free(q);
    p = sa_front_alloc(100, 1, false);
    sa_thread.sampling = 1; /* freed from inside: no stack is captured, but all is given back */
    sa_front_free(p);
    sa_thread.sampling = 0;
    assert_nothing_left();
}

/* No page for a sampled object: it is used unsampled, and counted. Then it goes on. */
static void no_pages(void *unused)
{
    static unsigned char *b[20000];
    size_t n = 0, unsampled = 0;

    (void)unused;
    set_interval(0);
    for (size_t i = 0; i < 10000; i++)
        b[i] = sa_front_alloc(64, 1, false);
    for (size_t i = 0; i < 10000; i++)
        sa_front_free(b[i]);
    set_interval(1);
    test_faults.mmap_after = 0;
    while (n < TEST_COUNT(b) && unsampled < 1000 && (b[n] = sa_front_alloc(64, 1, false))) {
        memset(b[n], 1, 64);
        unsampled += !own_page(b[n]);
        n++;
    }
    CHILD_CHECK(unsampled == 1000);
    CHILD_CHECK(taken().failed >= unsampled);
    CHILD_CHECK(live().samples == n - unsampled);
    test_faults_clear();
    b[n] = sa_front_alloc(64, 1, false);
    CHILD_CHECK(b[n] && own_page(b[n]));
    for (size_t i = 0; i <= n; i++)
        sa_front_free_sized(b[i], 64, 0);
    CHILD_CHECK(live().samples == 0 && sampled_in_use() == 0);
    sa_maintenance_release(PTRDIFF_MAX);
    CHILD_CHECK(heap_in_use() == 0);
}

/*
 * Pages, but no record: those of an earlier peak are kept for it, so that blocks of a second rise
 * need new ones. The page goes back; large blocks are not recorded.
 */
static void no_records(void *unused)
{
    enum { N = 30000 };
    static unsigned char *b[N];
    struct sa_sampler_stats before;
    size_t unsampled = 0;
    void *large;

    (void)unused;
    for (size_t i = 0; i < N; i++)
        b[i] = sa_front_alloc(64, 1, false);
    large = sa_front_alloc(1000000, 1, false);
    for (size_t i = 0; i < N; i++)
        sa_front_free(b[i]);
    CHILD_CHECK(live().samples == 1 && live().kept == N);
    before = taken();
    test_faults.mmap_after = 0;
    for (size_t i = 0; i < N; i++) {
        b[i] = sa_front_alloc(64, 1, false);
        CHILD_CHECK(b[i] != NULL);
        unsampled += !own_page(b[i]);
    }
    CHILD_CHECK(unsampled > 0 && unsampled < N);
    CHILD_CHECK(taken().failed == before.failed + unsampled);
    CHILD_CHECK(taken().taken == before.taken + N - unsampled);
    CHILD_CHECK(sampled_in_use() == (N - unsampled) * SA_PAGE_BYTES);
    CHILD_CHECK(live().samples == N - unsampled + 1);
    large = sa_front_realloc(large, 700000);
    CHILD_CHECK(large != NULL);
    test_faults_clear();
    sa_front_free(large);
    for (size_t i = 0; i < N; i++)
        sa_front_free(b[i]);
    CHILD_CHECK(live().samples == 0 && sampled_in_use() == 0);
    sa_maintenance_release(PTRDIFF_MAX);
    CHILD_CHECK(heap_in_use() == 0);
}

static void test_sampler_without_memory_goes_unsampled(void **state)
{
    (void)state;
    test_child_passes(no_pages, NULL);
    test_child_passes(no_records, NULL);
}

/* The child of a fork has the samples of its parent, can free them, and goes on sampling. */
static void test_sampler_goes_on_after_fork(void **state)
{
    void *p = sa_front_alloc(100, 1, false), *q;
    int status;
    pid_t pid;

    (void)state;
    fflush(stdout);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool good = live().samples == 1;

        q = sa_front_alloc(100, 1, false);
        good &= q && own_page(q) && q != p && live().samples == 2;
        sa_front_free(p);
        sa_front_free(q);
        good &= live().samples == 0 && sampled_in_use() == 0;
        _exit(!good);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(live().samples, 1);
    sa_front_free(p);
    assert_nothing_left();
}

/* Residency is not read with the profile, which is made inside the gate, but after; then of what
 * was in it. */
static void test_sampler_measures_residency_apart(void **state)
{
    size_t bytes = 64 * MIB, touched = 4 * MIB;
    char *large, *small;
    struct sa_profile *p;
    int error;

    (void)state;
    set_interval(1);
    large = sa_front_alloc(bytes, 1, false);
    small = sa_front_alloc(100, 1, false);
    assert_true(large && small);
    memset(large, 1, touched);
    memset(small, 1, 100);
    p = sa_snapshot_profile(SALLOC_PROFILE_HEAP, &error);
    assert_non_null(p);
    for (size_t i = 0; i < p->bucket_count; i++)
        assert_true(p->buckets[i].resident == 0);
    sa_snapshot_measure(p);
    assert_int_equal(p->bucket_count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct sa_bucket *bucket = &p->buckets[i];

        if (bucket->key.allocated == bytes)
            assert_in_range((size_t)bucket->resident, touched, bytes / 2);
        else
            assert_true(bucket->resident == 112);
    }
    sa_profile_free(p);
    sa_front_free(large);
    sa_front_free(small);
    assert_nothing_left();
}

/*
 * Whether a pointer is ours may be asked of any, so its span may become one of objects in between:
 * what then stands in the place of the record must not be followed.
 */
static void test_sampler_knows_spans_that_hold_no_record(void **state)
{
    struct sa_span s = {.state = SA_SPAN_LARGE, .heap = SA_HEAP_ORDINARY, .bits = 0xff};

    (void)state;
    assert_int_equal(sa_sampler_class(&s), 0);
    s.heap = SA_HEAP_SAMPLED;
    s.sample = NULL;
    assert_int_equal(sa_sampler_class(&s), 0);
}

/* --- threads --- */

#define PASSED 6000

static void *volatile passed[PASSED]; /* atomic */

/* One thread allocates, another frees, a third makes profiles of what it sees. */
static void pass_on(int index, void *arg)
{
    (void)arg;
    for (size_t i = 0; i < PASSED; i++) {
        if (index == 0) {
            traffic_give(passed, i, 3000);
            THREAD_CHECK(own_page(passed[i]));
        } else if (index == 1) {
            traffic_take(passed, i, 3000);
        } else if (i % 100 == 0) {
            struct sa_profile *p;
            int error;

            sa_fork_gate_enter();
            p = sa_snapshot_profile((enum salloc_profile_type)(i / 100 % 3), &error);
            THREAD_CHECK(p != NULL);
            for (size_t k = 0; p && k < p->bucket_count; k++)
                THREAD_CHECK(p->buckets[k].samples > 0 && p->buckets[k].key.p == 1);
            if (p)
                sa_profile_free(p);
            sa_fork_gate_leave();
        }
    }
}

static void test_sampler_serves_threads(void **state)
{
    (void)state;
    test_threads_run(3, pass_on, NULL);
    test_threads_check();
    assert_int_equal(live().samples, 0);
    assert_int_equal(sampled_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_without_memory_goes_unsampled),
        cmocka_unit_test(test_sampler_gives_pages_of_their_own),
        cmocka_unit_test(test_sampler_keeps_proxies),
        cmocka_unit_test(test_sampler_holds_no_second_block),
        cmocka_unit_test(test_sampler_aligns),
        cmocka_unit_test(test_sampler_zeroes),
        cmocka_unit_test(test_sampler_does_not_sample_itself),
        cmocka_unit_test(test_sampler_goes_on_after_fork),
        cmocka_unit_test(test_sampler_measures_residency_apart),
        cmocka_unit_test(test_sampler_knows_spans_that_hold_no_record),
        cmocka_unit_test(test_sampler_serves_threads),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
