/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caches' slow paths: filling, emptying, growth of capacity within the limit, stopping,
 * draining, changing the limit, and the conservation law of budgets:
 *
 *   limit = budget in no class + sum over classes of capacity * size      (for every cache)
 */
#include "alloc/cpu_cache/cpu_cache.h"

#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/page_heap/account/heap_types.h"
#include "test/support/cache_disturb.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/objects.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <time.h>

#define LIMIT (1024ul * 1024)

/* Sampling is off here. */
static void *cache_alloc(unsigned cls)
{
    struct sa_sampling_decision decision = {.sampled = false};
    void *obj = sa_cpu_cache_alloc(cls, &decision);

    assert_false(decision.sampled);
    return obj;
}

static struct sa_cpu_cache_stats stats_of(int cpu)
{
    struct sa_cpu_cache_stats s;

    sa_cpu_cache_stats(cpu, &s);
    return s;
}

/* The cache that this (pinned) thread works on. */
static struct sa_cpu_cache_stats stats(void)
{
    return stats_of(sa_percpu_cpu());
}

static size_t cached(unsigned cls)
{
    struct sa_cpu_class_stats s;

    sa_cpu_cache_class_stats(cls, &s);
    return s.objects;
}

static size_t capacity(unsigned cls)
{
    return sa_state_cap(sa_hot.slabs[sa_percpu_cpu()]->header[cls].state);
}

static void assert_conserved(void)
{
    for (int cpu = 0; cpu < sa_cpu_cache_count(); cpu++) {
        struct sa_cpu_cache_stats s = stats_of(cpu);

        if (s.populated)
            assert_int_equal(s.limit_bytes, s.unallocated_bytes + s.capacity_bytes);
        assert_true(s.used_bytes <= s.capacity_bytes);
    }
}

static void assert_no_spans_left(void)
{
    sa_cpu_cache_drain(-1);
    sa_transfer_flush();
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_central_stats s;

        sa_central_stats(cls, &s);
        assert_int_equal(s.spans, 0);
    }
}

/* Allocates and frees n objects of a class, first in first out. */
static void cycle(unsigned cls, size_t n)
{
    static void *objs[40000];

    assert_true(n <= TEST_COUNT(objs));
    for (size_t i = 0; i < n; i++) {
        objs[i] = cache_alloc(cls);
        assert_non_null(objs[i]);
        assert_true(object_claim(objs[i]));
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(object_give_up(objs[i]));
        sa_cpu_cache_free(cls, objs[i]);
    }
}

static void test_cpu_cache_starts_without_capacity(void **state)
{
    void *obj;

    (void)state;
    assert_int_equal(sa_cpu_cache_count(), 0);
    assert_int_equal(sa_cpu_cache_limit(), LIMIT);
    assert_int_equal(sa_cpu_cache_slab_bytes(), 0);
    obj = cache_alloc(3);
    assert_non_null(obj);
    assert_true(sa_cpu_cache_count() > 0);
    assert_true(sa_cpu_cache_slab_bytes() > 0);
    assert_true(stats().populated);
    assert_int_equal(stats().limit_bytes, LIMIT);
    assert_conserved();
    sa_cpu_cache_free(3, obj);
    assert_int_equal(stats().used_bytes, cached(3) * sa_size_classes.of[3].size);
    assert_no_spans_left();
}

static void test_cpu_cache_serves_every_class(void **state)
{
    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        cycle(cls, 5 * sa_size_classes.of[cls].batch);
        assert_conserved();
    }
    assert_no_spans_left();
}

/* An object freed is the next one allocated: it is still warm. */
static void test_cpu_cache_gives_the_last_first(void **state)
{
    void *a, *b;

    (void)state;
    cycle(4, 100);
    a = cache_alloc(4);
    b = cache_alloc(4);
    sa_cpu_cache_free(4, a);
    sa_cpu_cache_free(4, b);
    assert_ptr_equal(cache_alloc(4), b);
    assert_ptr_equal(cache_alloc(4), a);
    sa_cpu_cache_free(4, b);
    sa_cpu_cache_free(4, a);
    assert_no_spans_left();
}

/* Capacity grows where misses alternate, up to the class's most and within the limit. */
static void test_cpu_cache_capacity_grows_within_bounds(void **state)
{
    static const size_t sizes[] = {16, 64, 1024, 32768};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned cls = sa_size_class_find(sizes[i]);
        const struct sa_class *k = &sa_size_classes.of[cls];
        size_t min = sa_min(k->max, LIMIT / 4 / k->size);

        for (int round = 0; round < 100; round++) {
            cycle(cls, 2u * k->max < 40000 ? 2u * k->max : 40000);
            assert_true(capacity(cls) <= k->max);
            assert_conserved();
        }
        assert_true(capacity(cls) >= min); /* the others are idle, most of the budget is there */
    }
    assert_no_spans_left();
}

/* A busy class takes capacity from idle ones when the budget is used up. */
static void test_cpu_cache_steals_from_idle_classes(void **state)
{
    unsigned busy = sa_size_class_find(256);
    size_t before;

    (void)state;
    for (unsigned cls = busy + 1; cls < sa_size_classes.count; cls++)
        for (int round = 0; round < 5; round++)
            cycle(cls, 2u * sa_size_classes.of[cls].max);
    assert_true(stats().unallocated_bytes < LIMIT / 8);
    before = capacity(busy);
    for (int round = 0; round < 200; round++)
        cycle(busy, 2u * sa_size_classes.of[busy].max);
    assert_true(capacity(busy) >= before + LIMIT / 4 / 256);
    assert_conserved();
    assert_no_spans_left();
}

static void test_cpu_cache_drain_gives_everything_back(void **state)
{
    size_t used;

    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        cycle(cls, 4u * sa_size_classes.of[cls].batch);
    used = stats().used_bytes;
    assert_true(used > 0);
    assert_int_equal(sa_cpu_cache_drain(sa_percpu_cpu()), used);
    assert_int_equal(stats().used_bytes, 0);
    assert_int_equal(stats().capacity_bytes, 0);
    assert_int_equal(stats().unallocated_bytes, LIMIT);
    assert_int_equal(sa_cpu_cache_drain(sa_percpu_cpu()), 0);
    assert_int_equal(sa_cpu_cache_drain(sa_cpu_cache_count() + 5), 0);
    cycle(7, 100); /* and goes on */
    assert_no_spans_left();
}

/* After a kick the next operation goes slow, sets the cache going and shortens all countdowns. */
static void test_cpu_cache_kick_shortens_countdowns(void **state)
{
    int cpu = sa_percpu_cpu();
    struct sa_slab *slab;
    void *obj;

    (void)state;
    cycle(4, 100);
    slab = sa_hot.slabs[cpu];
    slab->header[9].state = sa_state_make(sa_state_avail(slab->header[9].state), 20000,
                                          sa_state_cap(slab->header[9].state));
    sa_cpu_cache_kick();
    assert_ptr_equal(sa_hot.slabs[cpu], &sa_slab_empty);
    assert_null(sa_percpu_pop(4));
    obj = cache_alloc(4);
    assert_non_null(obj);
    assert_ptr_equal(sa_hot.slabs[cpu], slab);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        assert_in_range(sa_state_until(slab->header[cls].state), 0, 100);
    sa_cpu_cache_free(4, obj);
    assert_no_spans_left();
}

/* The countdown ends and is set again, again and again; allocations do not notice. */
static void test_cpu_cache_countdown_is_renewed(void **state)
{
    uint64_t until, before = 0;
    int renewed = 0;

    (void)state;
    cycle(4, 100);
    for (int i = 0; i < 100000; i++) {
        void *obj = sa_percpu_pop(4);

        if (!obj)
            obj = cache_alloc(4);
        assert_non_null(obj);
        until = sa_state_until(sa_hot.slabs[sa_percpu_cpu()]->header[4].state);
        renewed += until > before;
        before = until;
        sa_cpu_cache_free(4, obj);
    }
    /* Doubled from 16 each time that it ends within 10 ms, so a handful of times at least. */
    assert_in_range(renewed, 3, 100000 / 16);
    assert_no_spans_left();
}

static void test_cpu_cache_limit_can_be_changed(void **state)
{
    (void)state;
    cycle(40, 2u * sa_size_classes.of[40].max);
    sa_cpu_cache_set_limit(LIMIT / 4);
    assert_int_equal(sa_cpu_cache_limit(), LIMIT / 4);
    assert_int_equal(stats().limit_bytes, LIMIT / 4);
    for (int round = 0; round < 50; round++)
        for (unsigned cls = 30; cls < 60; cls++)
            cycle(cls, 2u * sa_size_classes.of[cls].batch);
    assert_conserved();
    assert_true(stats().capacity_bytes <= LIMIT / 4);
    sa_cpu_cache_set_limit(2 * LIMIT);
    for (int round = 0; round < 50; round++)
        for (unsigned cls = 30; cls < 60; cls++)
            cycle(cls, 2u * sa_size_classes.of[cls].max);
    assert_conserved();
    assert_true(stats().capacity_bytes > LIMIT / 4);
    assert_true(stats().capacity_bytes <= 2 * LIMIT);
    sa_cpu_cache_set_limit(LIMIT);
    assert_no_spans_left();
}

/* Without any capacity everything passes through the transfer cache, and works. */
static void test_cpu_cache_works_with_limit_0(void **state)
{
    (void)state;
    sa_cpu_cache_set_limit(0);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++)
        cycle(cls, 50);
    assert_int_equal(stats().capacity_bytes, 0);
    assert_int_equal(stats().used_bytes, 0);
    sa_cpu_cache_set_limit(LIMIT);
    assert_conserved();
    assert_no_spans_left();
}

/* A tick empties a cache that nobody used since the tick before; one in use is left alone. */
static void test_cpu_cache_tick_drains_idle_caches(void **state)
{
    (void)state;
    if (!test_per_cpu())
        TEST_SKIP("a thread's cache is emptied by its owner only");
    cycle(10, 1000);
    sa_cpu_cache_tick();
    cycle(10, 10);
    sa_cpu_cache_tick();
    assert_true(stats().used_bytes > 0);
    sa_cpu_cache_tick();
    assert_int_equal(stats().used_bytes, 0);
    assert_int_equal(stats().capacity_bytes, 0);
    assert_conserved();
    assert_no_spans_left();
}

static void free_twice(void *cls)
{
    unsigned c = *(const unsigned *)cls;
    void *obj = cache_alloc(c);

    sa_cpu_cache_free(c, obj);
    sa_cpu_cache_free(c, obj);
}

/* The second free meets a cache that the first one has filled to the last slot. */
static void free_twice_when_full(void *cls)
{
    unsigned c = *(const unsigned *)cls;
    void *obj = cache_alloc(c);
    struct sa_header *h = &sa_hot.slabs[sa_percpu_cpu()]->header[c];

    while (sa_state_avail(h->state) + 1 < sa_state_cap(h->state)) {
        void *more;

        CHILD_CHECK(sa_transfer_remove(-1, c, &more, 1) == 1);
        CHILD_CHECK(sa_percpu_push(c, more) == SA_PUSHED);
    }
    sa_cpu_cache_free(c, obj);
    CHILD_CHECK(sa_state_avail(h->state) == sa_state_cap(h->state));
    sa_cpu_cache_free(c, obj);
}

/* The same after a fall of the heap, when the full stack is passed on. */
static void free_twice_after_a_fall(void *cls)
{
    unsigned c = *(unsigned *)cls;

    sa_page_heap_fall = SA_FALL_ANSWERED;
    free_twice_when_full(&c);
}

static void test_cpu_cache_free_twice_ends_the_program(void **state)
{
    unsigned classes[] = {1, 5, 20, 50};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(classes); i++) {
        cycle(classes[i], 200);
        test_child_aborts(free_twice, &classes[i], "double free");
        test_child_aborts(free_twice_when_full, &classes[i], "double free");
        test_child_aborts(free_twice_after_a_fall, &classes[i], "double free");
    }
    assert_no_spans_left();
}

static void no_memory(void *unused)
{
    static void *objs[100000];
    size_t n = 0;

    (void)unused;
    test_faults.mmap_after = 0;
    CHILD_CHECK(cache_alloc(3) == NULL); /* not even a slab */
    test_faults_clear();
    objs[n++] = cache_alloc(3);
    CHILD_CHECK(objs[0] != NULL);
    test_faults.mmap_after = 0;
    while (n < TEST_COUNT(objs) && (objs[n] = cache_alloc(60)))
        n++;
    CHILD_CHECK(n < TEST_COUNT(objs));
    CHILD_CHECK(cache_alloc(61) == NULL);
    sa_cpu_cache_free(60, objs[--n]);
    objs[n] = cache_alloc(60); /* what came back is there for the next */
    CHILD_CHECK(objs[n++] != NULL);
    test_faults_clear();
    CHILD_CHECK(cache_alloc(61) != NULL);
    for (size_t i = 1; i < n; i++)
        sa_cpu_cache_free(60, objs[i]);
}

static void test_cpu_cache_recovers_when_memory_runs_out(void **state)
{
    (void)state;
    test_child_passes(no_memory, NULL);
}

#define HELD 400

struct churn {
    uint64_t working; /* atomic: threads that still allocate */
};

static void churn_work(int index)
{
    struct test_random r = {0xccc + (uint64_t)index};
    static const unsigned classes[] = {1, 2, 8, 20, 40, 70};
    struct {
        void *obj;
        unsigned cls;
    } held[HELD] = {{NULL, 0}};

    for (int step = 0; step < 60000; step++) {
        size_t i = test_random_below(&r, HELD);

        if (held[i].obj) {
            THREAD_CHECK(object_give_up(held[i].obj));
            sa_cpu_cache_free(held[i].cls, held[i].obj);
            held[i].obj = NULL;
        } else {
            held[i].cls = classes[test_random_below(&r, TEST_COUNT(classes))];
            held[i].obj = cache_alloc(held[i].cls);
            THREAD_CHECK(held[i].obj && object_claim(held[i].obj));
        }
    }
    for (size_t i = 0; i < HELD; i++) {
        if (held[i].obj) {
            THREAD_CHECK(object_give_up(held[i].obj));
            sa_cpu_cache_free(held[i].cls, held[i].obj);
        }
    }
}

/* One thread does to the caches all that maintenance can, while the others use them. */
static void churn(int index, void *arg)
{
    struct test_random r = {0xccb};
    struct churn *c = arg;
    unsigned n;

    if (index > 0) {
        churn_work(index);
        __atomic_fetch_sub(&c->working, 1, __ATOMIC_ACQ_REL);
        return;
    }
    while (__atomic_load_n(&c->working, __ATOMIC_ACQUIRE)) {
        nanosleep(&(struct timespec){0, 100000}, NULL);
        n = (unsigned)test_random_below(&r, CACHE_DISTURBANCES + 1);
        if (n < CACHE_DISTURBANCES)
            cache_disturb(n);
        else
            sa_cpu_cache_set_limit(test_random_below(&r, 2 * LIMIT));
    }
}

static void test_cpu_cache_hands_nothing_out_twice_to_threads(void **state)
{
    struct churn c = {4};

    (void)state;
    test_threads_run(5, churn, &c);
    test_threads_check();
    sa_cpu_cache_set_limit(LIMIT);
    sa_cpu_cache_drain(-1);
    assert_conserved();
    assert_no_spans_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_cache_recovers_when_memory_runs_out),
        cmocka_unit_test(test_cpu_cache_starts_without_capacity),
        cmocka_unit_test(test_cpu_cache_serves_every_class),
        cmocka_unit_test(test_cpu_cache_gives_the_last_first),
        cmocka_unit_test(test_cpu_cache_capacity_grows_within_bounds),
        cmocka_unit_test(test_cpu_cache_steals_from_idle_classes),
        cmocka_unit_test(test_cpu_cache_drain_gives_everything_back),
        cmocka_unit_test(test_cpu_cache_kick_shortens_countdowns),
        cmocka_unit_test(test_cpu_cache_countdown_is_renewed),
        cmocka_unit_test(test_cpu_cache_limit_can_be_changed),
        cmocka_unit_test(test_cpu_cache_works_with_limit_0),
        cmocka_unit_test(test_cpu_cache_tick_drains_idle_caches),
        cmocka_unit_test(test_cpu_cache_free_twice_ends_the_program),
        cmocka_unit_test(test_cpu_cache_hands_nothing_out_twice_to_threads),
    };

    test_start(LIMIT);
    test_pin();
    return cmocka_run_group_tests_name("cpu_cache", tests, NULL, NULL);
}
