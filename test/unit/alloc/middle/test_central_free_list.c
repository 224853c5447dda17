/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Central free lists: no object is handed out twice, all come back, empty spans return to the page
 * heap, fuller spans give first, bad pointers end the program, memory may run out.
 */
#include "alloc/middle/central_free_list.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/faults.h"
#include "test/support/objects.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

#define HELD_MAX 6000

static void *held[HELD_MAX];
static size_t held_count;

/* As many calls as it takes; fewer than n only when out of memory. */
static size_t remove_all(unsigned cls, void **objs, size_t n)
{
    size_t got = 0, more;

    do {
        more = sa_central_remove(cls, objs + got, n - got);
        got += more;
    } while (got < n && more);
    return got;
}

static void take(unsigned cls, size_t n)
{
    void *objs[200];

    assert_int_equal(remove_all(cls, objs, n), n);
    for (size_t i = 0; i < n; i++) {
        uintptr_t at = (uintptr_t)objs[i];
        struct sa_span *s = sa_pagemap_find(at);

        assert_non_null(s);
        assert_int_equal(s->state, SA_SPAN_OBJECTS);
        assert_int_equal(sa_pagemap_class(at), cls);
        assert_true(sa_class_index(&sa_size_classes.of[cls], at - s->start) >= 0);
        assert_true(object_claim(objs[i]));
        held[held_count++] = objs[i];
    }
}

static void give_random(struct test_random *r, unsigned cls, size_t n)
{
    void *objs[200];

    for (size_t i = 0; i < n; i++) {
        size_t k = test_random_below(r, held_count);

        objs[i] = held[k];
        held[k] = held[--held_count];
        assert_true(object_give_up(objs[i]));
    }
    sa_central_insert(cls, objs, n);
}

/* Held objects are the live ones on spans: counts of spans with one, two or three, four to 7... */
static void assert_utilization(unsigned cls)
{
    static struct {
        const struct sa_span *span;
        unsigned live;
    } seen[2 * HELD_MAX];
    size_t expected[SA_CENTRAL_BUCKETS] = {0};
    struct sa_central_stats s = central_stats(cls);

    memset(seen, 0, sizeof(seen));
    for (size_t i = 0; i < held_count; i++) {
        const struct sa_span *span = sa_pagemap_find((uintptr_t)held[i]);
        size_t at = ((uintptr_t)span >> 4) % TEST_COUNT(seen);

        while (seen[at].span && seen[at].span != span)
            at = (at + 1) % TEST_COUNT(seen);
        seen[at].span = span;
        seen[at].live++;
    }
    expected[0] = s.spans;
    for (size_t i = 0; i < TEST_COUNT(seen); i++)
        if (seen[i].span) {
            expected[0]--;
            for (size_t bucket = 0; bucket < SA_CENTRAL_BUCKETS; bucket++)
                if (seen[i].live < 1u << bucket) { /* the first such N of "spans with < N" */
                    expected[bucket]++;
                    break;
                }
        }
    for (size_t bucket = 0; bucket < SA_CENTRAL_BUCKETS; bucket++)
        assert_int_equal(s.utilization[bucket], expected[bucket]);
}

/* Per-class counters must say what the model knows. */
static void assert_counters(unsigned cls)
{
    const struct sa_class *k = &sa_size_classes.of[cls];
    struct sa_central_stats s = central_stats(cls);
    size_t spans = 0;

    assert_int_equal(s.spans * k->objects, s.free_objects + held_count);
    assert_int_equal(s.pages, s.spans * k->pages);
    assert_int_equal(s.spans_requested - s.spans_returned, s.spans);
    for (int i = 0; i < SA_CENTRAL_BUCKETS; i++)
        spans += s.utilization[i];
    assert_int_equal(spans, s.spans);
}

static void random_class(unsigned cls, int steps)
{
    struct test_random r = {0xce0000 + cls};
    size_t in_use = heap_in_use();

    for (int step = 0; step < steps; step++) {
        /* Swings between nearly all and nearly nothing held. */
        size_t chance = step / 200 % 2 ? 3 : 7, n = 1 + test_random_below(&r, 200);

        if (test_random_below(&r, 10) < chance && held_count + n <= HELD_MAX)
            take(cls, n);
        else if (held_count)
            give_random(&r, cls, sa_min(n, held_count));
        assert_counters(cls);
        if (step % 20 == 0)
            assert_utilization(cls);
    }
    while (held_count)
        give_random(&r, cls, sa_min(held_count, 200));
    assert_counters(cls);
    assert_int_equal(central_stats(cls).spans, 0);
    assert_int_equal(heap_in_use(), in_use);
}

/* Bitmaps of one word, of several, and exactly full; spans of one object and of several pages. */
static void test_central_random_operations_match_model(void **state)
{
    static const size_t sizes[] = {16, 32, 128, 144, 512, 1024, 1152, 8192, 65536, 262144};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        random_class(sa_size_class_find(sizes[i]), sizes[i] > 8192 ? 400 : 2000);
}

static void test_central_serves_every_class(void **state)
{
    struct test_random r = {0xce1};

    (void)state;
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        take(cls, sa_min(200, 2u * sa_size_classes.of[cls].objects + 1));
        assert_counters(cls);
        while (held_count)
            give_random(&r, cls, sa_min(held_count, 50));
        assert_int_equal(central_stats(cls).spans, 0);
    }
}

/* Objects of a span are its own size apart and lie inside it: none shares a byte with another. */
static void test_central_objects_do_not_overlap(void **state)
{
    const unsigned cls = sa_size_class_find(208);
    const size_t n = 150, size = sa_size_classes.of[cls].size;

    (void)state;
    take(cls, n);
    for (size_t i = 0; i < n; i++)
        memset((char *)held[i] + 8, (int)i, size - 8);
    for (size_t i = 0; i < n; i++)
        for (size_t at = 8; at < size; at++)
            assert_int_equal(((unsigned char *)held[i])[at], i);
    give_random(&(struct test_random){3}, cls, n);
}

/* Of two spans, the one with more live objects gives first, so that the other can drain. */
static void test_central_takes_from_fuller_spans_first(void **state)
{
    const unsigned cls = sa_size_class_find(512);
    const size_t objects = sa_size_classes.of[cls].objects;
    void *a[64], *b[64], *more[8];
    struct sa_span *fuller;

    (void)state;
    assert_in_range(objects, 16, 64);
    assert_int_equal(sa_central_remove(cls, a, objects), objects);
    assert_int_equal(sa_central_remove(cls, b, objects), objects);
    sa_central_insert(cls, a, objects - 1); /* one live object left */
    sa_central_insert(cls, b, 8);           /* 8 free ones */
    fuller = sa_pagemap_find((uintptr_t)b[8]);
    assert_int_equal(sa_central_remove(cls, more, 8), 8);
    for (int i = 0; i < 8; i++)
        assert_ptr_equal(sa_pagemap_find((uintptr_t)more[i]), fuller);
    sa_central_insert(cls, &a[objects - 1], 1); /* the other one is empty, and goes */
    assert_int_equal(central_stats(cls).spans, 1);
    sa_central_insert(cls, more, 8);
    sa_central_insert(cls, b + 8, objects - 8);
    assert_int_equal(central_stats(cls).spans, 0);
}

/* A pinned span outlives its objects, serves meanwhile, and goes with the last pin. */
static void test_central_keeps_pinned_spans(void **state)
{
    const unsigned cls = sa_size_class_find(10000);
    const size_t objects = sa_size_classes.of[cls].objects;
    void *a[64], *b[64];
    struct sa_span *span;

    (void)state;
    assert_in_range(objects, 2, 64);
    assert_int_equal(sa_central_remove(cls, a, objects), objects);
    span = sa_pagemap_find((uintptr_t)a[0]);
    assert_true(sa_central_pin(cls, a[0], true) && sa_central_pin(cls, a[1], true));
    sa_central_insert(cls, a, objects);
    sa_central_flush(); /* it is not a new one */
    sa_central_plunder();
    assert_int_equal(central_stats(cls).spans, 1);
    assert_int_equal(central_stats(cls).free_objects, objects);
    assert_int_equal(central_stats(cls).utilization[1], 1);
    assert_true(sa_central_has(cls));
    assert_int_equal(sa_central_remove(cls, b, objects), objects);
    assert_true(sa_pagemap_find((uintptr_t)b[0]) == span && span->state == SA_SPAN_OBJECTS);
    assert_true(sa_central_pin(cls, a[0], false)); /* in use: nothing happens */
    sa_central_insert(cls, b, objects);
    assert_int_equal(central_stats(cls).spans, 1);
    assert_true(sa_central_pin(cls, a[1], false));
    assert_int_equal(central_stats(cls).spans, 0);
    for (unsigned i = 0; i < SA_CENTRAL_BUCKETS; i++)
        assert_int_equal(central_stats(cls).utilization[i], 0);
}

/* There are so many pins, and no more. */
static void test_central_counts_pins(void **state)
{
    const unsigned cls = sa_size_class_find(10000);
    void *p;

    (void)state;
    assert_int_equal(sa_central_remove(cls, &p, 1), 1);
    for (unsigned i = 0; i < UINT16_MAX; i++)
        assert_true(sa_central_pin(cls, p, true));
    assert_false(sa_central_pin(cls, p, true));
    sa_central_insert(cls, &p, 1);
    for (unsigned i = 0; i < UINT16_MAX; i++) {
        assert_int_equal(central_stats(cls).spans, 1);
        assert_true(sa_central_pin(cls, p, false));
    }
    assert_int_equal(central_stats(cls).spans, 0);
}

/* A new span is made for the first object only: more are given as far as they are there. */
static void test_central_makes_one_span_for_one_object(void **state)
{
    const unsigned cls = sa_size_class_find(512);
    const size_t objects = sa_size_classes.of[cls].objects;
    void *a[64], *b[64];

    (void)state;
    assert_int_equal(sa_central_remove(cls, a, objects - 3), objects - 3);
    assert_int_equal(sa_central_remove(cls, b, 64), 3);
    assert_int_equal(central_stats(cls).spans, 1);
    assert_int_equal(sa_central_remove(cls, b + 3, 61), objects);
    assert_int_equal(central_stats(cls).spans, 2);
    sa_central_insert(cls, a, objects - 3);
    sa_central_insert(cls, b, objects + 3);
    assert_int_equal(central_stats(cls).spans, 0);
}

/* n objects, of which the last are those of the span of `first` from this on, in the order of
 * addresses from the end, and those before them of one other span. */
static void assert_in_order(void *const *objs, size_t n, const char *first, size_t of_first)
{
    const size_t size = sa_size_classes.of[sa_size_class_find(512)].size;
    const char *second = n > of_first ? objs[n - 1 - of_first] : NULL;

    for (size_t i = 0; i < n; i++)
        assert_ptr_equal(objs[n - 1 - i],
                         i < of_first ? first + i * size : second + (i - of_first) * size);
    if (second)
        assert_int_equal(sa_pagemap_find((uintptr_t)second)->start, (uintptr_t)second);
}

/* Caches hand out the last object first. Objects of a span that gives its last ones come before
 * those of the next, so that a program fills fresh memory in the order of addresses. */
static void test_central_gives_in_the_order_of_addresses(void **state)
{
    const unsigned cls = sa_size_class_find(512);
    const size_t objects = sa_size_classes.of[cls].objects, size = sa_size_classes.of[cls].size;
    void *a[64], *b[64], *more[64];
    struct test_random random = {5};

    (void)state;
    assert_in_range(objects, 12, 24);
    for (int i = 0; i < 24; i++) /* so many spans that a call may make new ones */
        take(cls, objects);
    assert_int_equal(sa_central_remove(cls, a, 10), 10);
    assert_in_order(a, 10, a[9], 10);
    assert_int_equal(sa_central_remove(cls, b, objects), objects);
    assert_in_order(b, objects, (char *)a[9] + 10 * size, objects - 10);
    /* Fewer than asked for. */
    assert_int_equal(sa_central_remove(cls, more, 64), 2 * objects - 10);
    assert_in_order(more, 2 * objects - 10, (char *)b[9] + 10 * size, objects - 10);
    sa_central_insert(cls, more, 2 * objects - 10);
    sa_central_insert(cls, b, objects);
    sa_central_insert(cls, a, 10);
    while (held_count)
        give_random(&random, cls, sa_min(held_count, 100));
    assert_int_equal(central_stats(cls).spans, 0);
}

static void free_twice(void *unused)
{
    void *objs[3];

    (void)unused;
    sa_central_remove(5, objs, 3);
    sa_central_insert(5, &objs[1], 1);
    sa_central_insert(5, &objs[1], 1);
}

static void free_twice_in_one_batch(void *unused)
{
    void *objs[4];

    (void)unused;
    sa_central_remove(5, objs, 3);
    objs[3] = objs[0];
    sa_central_insert(5, objs, 4);
}

/* Class 1 has 512 objects on a span, and a bitmap of eight words. */
static void free_twice_in_another_word(void *unused)
{
    void *objs[200], *again[] = {NULL, NULL, NULL, NULL};

    (void)unused;
    CHILD_CHECK(remove_all(1, objs, 200) == 200);
    again[0] = objs[0];
    again[1] = objs[199];
    again[2] = objs[1];
    again[3] = objs[199];
    sa_central_insert(1, again, 4);
}

static void free_interior(void *unused)
{
    void *objs[2];

    (void)unused;
    sa_central_remove(5, objs, 2);
    objs[0] = (char *)objs[0] + 16;
    sa_central_insert(5, objs, 1);
}

static void free_interior_behind_others(void *unused)
{
    void *objs[3];

    (void)unused;
    sa_central_remove(5, objs, 3);
    objs[2] = (char *)objs[2] + 16;
    sa_central_insert(5, objs, 3);
}

static void free_to_wrong_class(void *unused)
{
    void *objs[2];

    (void)unused;
    sa_central_remove(5, objs, 2);
    sa_central_insert(6, objs, 1);
}

static void free_foreign(void *unused)
{
    void *obj = &obj;

    (void)unused;
    sa_central_insert(5, &obj, 1);
}

static void test_central_bad_pointers_end_the_program(void **state)
{
    (void)state;
    test_child_aborts(free_twice, NULL, "double free");
    test_child_aborts(free_twice_in_one_batch, NULL, "double free");
    test_child_aborts(free_twice_in_another_word, NULL, "double free");
    test_child_aborts(free_interior, NULL, "invalid free");
    test_child_aborts(free_interior_behind_others, NULL, "invalid free");
    test_child_aborts(free_to_wrong_class, NULL, "invalid free");
    test_child_aborts(free_foreign, NULL, "invalid free");
}

static void run_out(void *unused)
{
    static void *objs[4096][32];
    static size_t got[4096];
    size_t rounds = 0;

    (void)unused;
    sa_central_remove(20, objs[0], 1); /* the heap exists */
    test_faults.mmap_after = 0;
    do {
        CHILD_CHECK(++rounds < 4096);
        got[rounds] = remove_all(20, objs[rounds], 32);
    } while (got[rounds] == 32);
    CHILD_CHECK(sa_central_remove(20, objs[0] + 1, 1) == 0);
    CHILD_CHECK(sa_central_remove(2, objs[0] + 1, 1) == 0);
    sa_central_insert(20, objs[1], 32);
    CHILD_CHECK(sa_central_remove(20, objs[1], 32) == 32); /* what was given back is there */
    test_faults_clear();
    CHILD_CHECK(remove_all(20, objs[0] + 1, 31) == 31);
    sa_central_insert(20, objs[0], 32);
    for (size_t i = 1; i <= rounds; i++)
        sa_central_insert(20, objs[i], got[i]);
    CHILD_CHECK(central_stats(20).spans == 0);
}

static void test_central_recovers_when_memory_runs_out(void **state)
{
    (void)state;
    test_child_passes(run_out, NULL);
}

#define THREAD_HELD 500

static void churn(int index, void *arg)
{
    struct test_random r = {0xce7 + (uint64_t)index};
    unsigned cls = *(const unsigned *)arg;
    void *mine[THREAD_HELD];
    size_t count = 0;

    for (int step = 0; step < 3000; step++) {
        size_t n = 1 + test_random_below(&r, 32);

        if (test_random_below(&r, 2) && count + n <= THREAD_HELD) {
            n = sa_central_remove(cls, mine + count, n);
            THREAD_CHECK(n > 0);
            for (size_t i = 0; i < n; i++)
                THREAD_CHECK(object_claim(mine[count + i]));
            count += n;
        } else if (count) {
            n = sa_min(n, count);
            count -= n;
            for (size_t i = 0; i < n; i++)
                THREAD_CHECK(object_give_up(mine[count + i]));
            sa_central_insert(cls, mine + count, n);
        }
    }
    for (size_t i = 0; i < count; i++)
        THREAD_CHECK(object_give_up(mine[i]));
    if (count)
        sa_central_insert(cls, mine, count);
}

static void test_central_hands_nothing_out_twice_to_threads(void **state)
{
    static const size_t sizes[] = {16, 96, 2048};
    size_t in_use = heap_in_use();

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned cls = sa_size_class_find(sizes[i]);

        test_threads_run(4, churn, &cls);
        test_threads_check();
        assert_int_equal(central_stats(cls).spans, 0);
    }
    assert_int_equal(heap_in_use(), in_use);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_central_recovers_when_memory_runs_out),
        cmocka_unit_test(test_central_bad_pointers_end_the_program),
        cmocka_unit_test(test_central_random_operations_match_model),
        cmocka_unit_test(test_central_serves_every_class),
        cmocka_unit_test(test_central_objects_do_not_overlap),
        cmocka_unit_test(test_central_takes_from_fuller_spans_first),
        cmocka_unit_test(test_central_keeps_pinned_spans),
        cmocka_unit_test(test_central_counts_pins),
        cmocka_unit_test(test_central_makes_one_span_for_one_object),
        cmocka_unit_test(test_central_gives_in_the_order_of_addresses),
        cmocka_unit_test(test_central_hands_nothing_out_twice_to_threads),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("central", tests, NULL, NULL);
}
