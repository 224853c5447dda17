/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards of the transfer cache: what a CPU freed it gets back itself, what it has too much of goes
 * to others, the bound is for all together, and there are enough for any number of CPUs; and
 * domains, with a made-up topology. Most tests run in children, as shards that were claimed stay.
 */
#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "alloc/middle/transfer_cache.h"
#include "alloc/middle/transfer_shards.h"
#include "pagemap/arena.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/faults.h"
#include "test/support/objects.h"
#include "test/support/random.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <string.h>

#define CLS     8   /* 128 bytes: in shards */
#define MANY    300 /* CPUs, more than there are shards */
#define THREADS 6
#define PIECE   128 /* objects that are inserted at a time */

/* What the tests hold, in the order in which they got it. */
static void *held[20000];
static size_t holds;

/* Objects from the spans, at least so many, until no span has any left. */
static void hold(unsigned cls, size_t n)
{
    while (holds < n || central_stats(cls).free_objects) {
        CHILD_CHECK(holds < TEST_COUNT(held));
        CHILD_CHECK(sa_central_remove(cls, held + holds, 1) == 1);
        holds++;
    }
}

static void insert(int cpu, unsigned cls, void **objs, size_t n)
{
    for (size_t i = 0; i < n; i += PIECE)
        sa_transfer_insert(cpu, cls, objs + i, sa_min(n - i, PIECE));
}

/* Several CPUs have stacks of a class: from then on each may use the whole capacity. */
static void come_two(unsigned cls)
{
    for (int cpu = 0; cpu < 2; cpu++) {
        void *out;

        sa_transfer_insert(cpu, cls, held, 1);
        CHILD_CHECK(sa_transfer_remove(cpu, cls, &out, 1) == 1 && out == held[0]);
    }
}

static void is_empty_in_the_end(unsigned cls)
{
    sa_transfer_flush();
    CHILD_CHECK(transfer_stats(cls).objects == 0);
    CHILD_CHECK(central_stats(cls).spans == 0);
}

static void gives_back_its_own(void *unused)
{
    void *out[40];

    (void)unused;
    hold(CLS, 40);
    insert(0, CLS, held, 20);
    insert(1, CLS, held + 20, holds - 20);
    CHILD_CHECK(transfer_stats(CLS).objects == holds);
    CHILD_CHECK(sa_transfer_remove(0, CLS, out, 40) == 20); /* CPU 1 came last, and has more */
    CHILD_CHECK(memcmp(out, held, 20 * sizeof(*out)) == 0);
    CHILD_CHECK(sa_transfer_remove(1, CLS, out, 1) == 1);
    CHILD_CHECK(out[0] == held[holds - 1]);
    insert(0, CLS, held, 20);
    insert(0, CLS, out, 1);
    is_empty_in_the_end(CLS);
}

/* No span has anything: what is left of another CPU's goes over as long as that keeps some. */
static void takes_what_others_need_least(void *unused)
{
    size_t before;
    void *out[10];

    (void)unused;
    hold(CLS, 64);
    before = central_stats(CLS).spans;
    insert(0, CLS, held, 41);
    CHILD_CHECK(sa_transfer_has(1, CLS));
    CHILD_CHECK(sa_transfer_remove(1, CLS, out, 10) == 10);
    CHILD_CHECK(central_stats(CLS).spans == before);
    CHILD_CHECK(out[9] == held[40]);
    insert(2, CLS, out, 10);
    CHILD_CHECK(sa_transfer_remove(1, CLS, out, 10) == 10); /* now from a new span */
    CHILD_CHECK(central_stats(CLS).spans == before + 1);
    CHILD_CHECK(transfer_stats(CLS).objects == 41);
    insert(1, CLS, out, 10);
    insert(1, CLS, held + 41, holds - 41);
    is_empty_in_the_end(CLS);
}

/* What lies on spans comes first, but not for ever: CPUs may do nothing but free, and several are
 * as good as one. */
static void takes_much_before_spans(void *unused)
{
    const size_t capacity = transfer_stats(CLS).max_capacity, each = capacity / 12;
    void *out[10];

    (void)unused;
    hold(CLS, capacity);
    insert(0, CLS, held, each);
    insert(1, CLS, held + each, each + 10);
    sa_central_insert(CLS, held + holds - 20, 20);
    CHILD_CHECK(sa_transfer_remove(3, CLS, out, 10) == 10);
    CHILD_CHECK(central_stats(CLS).free_objects == 10);
    insert(2, CLS, held + 2 * each + 10, each);
    CHILD_CHECK(sa_transfer_remove(3, CLS, out, 10) == 10);
    CHILD_CHECK(central_stats(CLS).free_objects == 10);
    CHILD_CHECK(out[9] == held[2 * each + 9]); /* of the fullest */
    CHILD_CHECK(sa_transfer_remove(3, CLS, out, 10) == 10);
    CHILD_CHECK(central_stats(CLS).free_objects == 0); /* less than a quarter now */
}

/* Nothing on the spans: no new one while others hold so much together, though none has much to
 * spare. */
static void takes_little_from_many(void *unused)
{
    const size_t capacity = transfer_stats(CLS).max_capacity, each = capacity / SA_SHARDS_DOMAIN;
    void *out[SA_MOVE_MAX];
    size_t before;

    (void)unused;
    CHILD_CHECK(4 * SA_MOVE_MAX > each);
    hold(CLS, capacity / 4);
    before = central_stats(CLS).spans;
    for (int cpu = 0; cpu < 4; cpu++)
        insert(cpu, CLS, held + (size_t)cpu * each, each);
    CHILD_CHECK(sa_transfer_remove(4, CLS, out, SA_MOVE_MAX) == sa_min(each, SA_MOVE_MAX));
    CHILD_CHECK(central_stats(CLS).spans == before);
    CHILD_CHECK(sa_transfer_remove(4, CLS, out, SA_MOVE_MAX) > 0);
    CHILD_CHECK(central_stats(CLS).spans > before);
}

/* All together hold what one may hold, beside what each may hold in any case. */
static void share_the_bound(void *unused)
{
    const size_t capacity = transfer_stats(CLS).max_capacity, min = capacity / SA_SHARDS_DOMAIN;
    static void *out[8192];

    (void)unused;
    hold(CLS, 4 * capacity);
    come_two(CLS);
    for (int cpu = 0; cpu < 3; cpu++)
        insert(cpu, CLS, held + (size_t)cpu * capacity, capacity);
    CHILD_CHECK(transfer_stats(CLS).objects == capacity + 2 * min);
    CHILD_CHECK(transfer_stats(CLS).capacity >= transfer_stats(CLS).objects);
    CHILD_CHECK(transfer_stats(CLS).insert_misses > 0);
    /* The first one gives half, which the second takes: then there is no room for the first, though
     * its stack has some. */
    for (size_t given = 0; given < capacity / 2; given += PIECE)
        CHILD_CHECK(sa_transfer_remove(0, CLS, out + given, PIECE) == PIECE);
    insert(1, CLS, out, capacity / 2);
    insert(0, CLS, held + 3 * capacity, capacity / 2);
    CHILD_CHECK(transfer_stats(CLS).objects <= capacity + 2 * min);
}

/* What came to the others meanwhile may leave a stack less than it has. */
static void does_not_grow_beyond_its_share(void *unused)
{
    const size_t capacity = transfer_stats(CLS).max_capacity, min = capacity / SA_SHARDS_DOMAIN;
    size_t before;

    (void)unused;
    hold(CLS, 2 * capacity);
    come_two(CLS);
    insert(0, CLS, held, 12 * min);
    insert(1, CLS, held + 12 * min, 4 * min);
    insert(2, CLS, held + 16 * min, min);
    before = transfer_stats(CLS).objects;
    CHILD_CHECK(before == 17 * min);
    insert(0, CLS, held + 17 * min, SA_MOVE_MAX);
    CHILD_CHECK(transfer_stats(CLS).objects == before);
}

/* Few blocks of these share a line: one stack for all CPUs. */
static void large_classes_have_one(void *unused)
{
    const unsigned cls = sa_size_class_find(1024);
    void *out[2];

    (void)unused;
    CHILD_CHECK(sa_transfer_remove(0, cls, out, 1) == 1);
    sa_transfer_insert(0, cls, out, 1);
    CHILD_CHECK(sa_transfer_remove(1, cls, out + 1, 1) == 1);
    CHILD_CHECK(out[0] == out[1]);
    sa_transfer_insert(1, cls, out, 1);
    is_empty_in_the_end(cls);
}

/* Where there is no memory, nothing is kept for anybody. */
static void last_objects_go_to_whoever_asks(void *unused)
{
    void *out[10];

    (void)unused;
    insert(1, CLS, held, 0);
    hold(CLS, 10);
    insert(0, CLS, held, 10);
    CHILD_CHECK(sa_transfer_shard_of(1) == 1);
    while (sa_central_remove(CLS, held + holds, 1)) {
        holds++;
        test_faults.mmap_after = 0;
        CHILD_CHECK(holds < TEST_COUNT(held));
    }
    CHILD_CHECK(sa_transfer_remove(1, CLS, out, 7) == 7);
    CHILD_CHECK(sa_transfer_remove(1, CLS, out + 7, 7) == 3);
    CHILD_CHECK(sa_transfer_remove(1, CLS, out, 7) == 0);
    test_faults_clear();
    insert(1, CLS, held, holds);
    is_empty_in_the_end(CLS);
}

static void are_enough_for_any_number(void *unused)
{
    unsigned of_first = 0;

    (void)unused;
    hold(CLS, MANY);
    for (int cpu = 0; cpu < MANY; cpu++) {
        insert(cpu, CLS, held + cpu, 1);
        CHILD_CHECK(sa_transfer_shard_of(cpu) < SA_SHARDS_DOMAIN);
        of_first += sa_transfer_shard_of(cpu) == 0;
    }
    CHILD_CHECK(sa_transfer_shard_count() == SA_SHARDS_DOMAIN);
    CHILD_CHECK(of_first <= MANY / SA_SHARDS_DOMAIN + 1); /* none is crowded */
    insert(-1, CLS, held + MANY, 1);
    insert(SA_SLABS, CLS, held + MANY + 1, holds - MANY - 1);
    is_empty_in_the_end(CLS);
}

/* A class of larger blocks has one stack, which may hold more once many CPUs have found it full. */
static void hold_more_for_many_cpus(void *unused)
{
    const unsigned cls = sa_size_class_find(16384);
    const size_t least = transfer_stats(cls).max_capacity, small = transfer_stats(CLS).max_capacity;
    size_t all = 5 * least;

    (void)unused;
    for (int cpu = 0; cpu < SA_SHARDS_DOMAIN; cpu++) {
        for (size_t i = 0; i < all; i++)
            CHILD_CHECK(sa_transfer_remove(cpu, cls, held + i, 1) == 1);
        insert(cpu, cls, held, all);
        CHILD_CHECK(transfer_stats(cls).objects <= transfer_stats(cls).max_capacity);
        CHILD_CHECK(transfer_stats(cls).max_capacity == least * sa_max((size_t)(cpu + 1) / 4, 1));
    }
    CHILD_CHECK(transfer_stats(CLS).max_capacity == small);
    for (size_t i = 0; i < all; i++)
        CHILD_CHECK(sa_transfer_remove(0, cls, held + i, 1) == 1);
    insert(0, cls, held, all);
    CHILD_CHECK(transfer_stats(cls).objects == 4 * least);
    is_empty_in_the_end(cls);
}

static void do_without_memory(void *unused)
{
    void *out[64];

    (void)unused;
    hold(CLS, 64);
    insert(0, CLS, held, 1);
    test_faults.mmap_after = 0;
    while (sa_arena_alloc(SA_CACHELINE, SA_CACHELINE))
        ;
    for (int cpu = 1; cpu < 64; cpu++) {
        insert(cpu, CLS, held + cpu, 1);
        CHILD_CHECK(sa_transfer_shard_of(cpu) == 0);
    }
    test_faults_clear();
    for (int cpu = 0; cpu < 64; cpu++)
        CHILD_CHECK(sa_transfer_remove(cpu, CLS, out + cpu, 1) == 1);
    insert(0, CLS, out, 64);
    insert(0, CLS, held + 64, holds - 64);
    is_empty_in_the_end(CLS);
}

static void split_is_refused(void *unused)
{
    static const uint8_t domain_of[] = {0, 1};

    (void)unused;
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 1) == 0);
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 1000) == 0);
    CHILD_CHECK(sa_transfer_domains() == 1);
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 2) == 1);
    CHILD_CHECK(sa_transfer_domains() == 2);
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 2) == 0); /* once */
}

/* CPUs 0, 2 and 4 share a cache, 1 and 3 another, 5 has its own; some had shards before that was
 * known. */
static void split_keeps_domains_apart(void *unused)
{
    static const uint8_t domain_of[] = {0, 1, 0, 1, 0, 2};
    const size_t capacity = transfer_stats(CLS).max_capacity;
    void *out[200];

    (void)unused;
    hold(CLS, 400);
    sa_transfer_shard_of(0);
    insert(1, CLS, held, 100); /* before the split: goes with its CPU */
    CHILD_CHECK(sa_transfer_split(domain_of, 6, 3) == 1);
    CHILD_CHECK(sa_transfer_domains() == 3);
    CHILD_CHECK(transfer_stats(CLS).max_capacity == 3 * capacity);
    insert(2, CLS, held + 100, 100);
    insert(5, CLS, held + 200, 100);
    CHILD_CHECK(sa_transfer_remove(3, CLS, out, 1) == 1);
    CHILD_CHECK(out[0] == held[99]);
    CHILD_CHECK(sa_transfer_remove(4, CLS, out + 1, 1) == 1);
    CHILD_CHECK(out[1] == held[199]);
    CHILD_CHECK(sa_transfer_remove(5, CLS, out + 2, 1) == 1);
    CHILD_CHECK(out[2] == held[299]);
    CHILD_CHECK(transfer_stats(CLS).objects == 297);
    /* CPUs that the topology does not name, and none at all, count as domain 0. */
    CHILD_CHECK(sa_transfer_remove(6, CLS, out + 3, 1) == 1);
    CHILD_CHECK(out[3] == held[198]);
    insert(-1, CLS, out, 4);
    insert(0, CLS, held + 300, holds - 300);
    is_empty_in_the_end(CLS);
}

/* Which have one stack otherwise. */
static void split_parts_large_classes(void *unused)
{
    static const uint8_t domain_of[] = {0, 1};
    const unsigned cls = sa_size_class_find(1024);
    void *out[3];

    (void)unused;
    CHILD_CHECK(sa_transfer_split(domain_of, 2, 2) == 1);
    CHILD_CHECK(sa_transfer_remove(0, cls, out, 1) == 1);
    sa_transfer_insert(0, cls, out, 1);
    CHILD_CHECK(sa_transfer_remove(1, cls, out + 1, 1) == 1);
    CHILD_CHECK(out[0] != out[1]);
    CHILD_CHECK(sa_transfer_remove(0, cls, out + 2, 1) == 1);
    CHILD_CHECK(out[0] == out[2]);
    sa_transfer_insert(1, cls, out, 2);
    is_empty_in_the_end(cls);
}

/* Also if as many CPUs as share a cache otherwise had shards before. */
static void split_leaves_none_out(void *unused)
{
    static uint8_t domain_of[MANY]; /* eight large ones come first */

    (void)unused;
    for (int cpu = 0; cpu < MANY; cpu++)
        domain_of[cpu] = (uint8_t)(cpu < 160 ? cpu / 20 : 8 + cpu % 56);
    for (int cpu = 0; cpu < SA_SHARDS_DOMAIN; cpu++)
        sa_transfer_shard_of(cpu);
    CHILD_CHECK(sa_transfer_split(domain_of, MANY, SA_DOMAINS_MAX) == 1);
    for (int cpu = 0; cpu < MANY; cpu++) {
        unsigned number = sa_transfer_shard_of(cpu);

        CHILD_CHECK(sa_transfer_others.domain[number] == domain_of[cpu]);
    }
}

/* CPUs 0 and 16 share a shard until they turn out to be far apart. */
static void split_parts_those_that_shared(void *unused)
{
    static uint8_t domain_of[17];
    void *out;

    (void)unused;
    hold(CLS, 64);
    for (int cpu = 0; cpu < 17; cpu++)
        insert(cpu, CLS, held + cpu, 1);
    CHILD_CHECK(sa_transfer_shard_of(0) == sa_transfer_shard_of(16));
    domain_of[16] = 1;
    CHILD_CHECK(sa_transfer_split(domain_of, 17, 2) == 1);
    insert(16, CLS, held + 17, 1);
    CHILD_CHECK(sa_transfer_shard_of(16) == SA_SHARDS_DOMAIN);
    CHILD_CHECK(sa_transfer_remove(0, CLS, &out, 1) == 1);
    CHILD_CHECK(out != held[17]);
    insert(0, CLS, &out, 1);
    insert(0, CLS, held + 18, holds - 18);
    is_empty_in_the_end(CLS);
}

static void churn(int index, void *unused)
{
    struct test_random r = {0x77a + (uint64_t)index};
    void *mine[600];
    size_t count = 0;

    (void)unused;
    for (int step = 0; step < 4000; step++) {
        unsigned cls = CLS;
        size_t n = 1 + test_random_below(&r, SA_MOVE_MAX);

        if (test_random_below(&r, 2) && count + n <= TEST_COUNT(mine)) {
            n = sa_transfer_remove(index, cls, mine + count, n);
            THREAD_CHECK(n > 0);
            for (size_t i = 0; i < n; i++)
                THREAD_CHECK(object_claim(mine[count + i]));
            count += n;
        } else if (count) {
            n = sa_min(n, count);
            count -= n;
            for (size_t i = 0; i < n; i++)
                THREAD_CHECK(object_give_up(mine[count + i]));
            sa_transfer_insert(index, cls, mine + count, n);
        }
        if (index == 0 && step % 100 == 0)
            sa_transfer_plunder();
        if (index == 1 && step % 500 == 0)
            sa_transfer_flush();
    }
    for (size_t i = 0; i < count; i++)
        THREAD_CHECK(object_give_up(mine[i]));
    for (size_t i = 0; i < count; i += SA_MOVE_MAX)
        sa_transfer_insert(index, CLS, mine + i, sa_min(count - i, SA_MOVE_MAX));
}

static void test_shards_hand_nothing_out_twice(void **state)
{
    (void)state;
    test_threads_run(THREADS, churn, NULL);
    test_threads_check();
    sa_transfer_flush();
    assert_int_equal(transfer_stats(CLS).objects, 0);
    assert_int_equal(central_stats(CLS).spans, 0);
}

static void test_shards_hand_nothing_out_twice_across_domains(void **state)
{
    static const uint8_t domain_of[THREADS] = {0, 1, 0, 1, 0, 2};

    assert_int_equal(sa_transfer_split(domain_of, THREADS, 3), 1);
    test_shards_hand_nothing_out_twice(state);
}

#define IN_CHILD(name, function)                                                                   \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        test_child_passes(function, NULL);                                                         \
    }

IN_CHILD(test_shards_give_back_their_own, gives_back_its_own)
IN_CHILD(test_shards_take_what_others_need_least, takes_what_others_need_least)
IN_CHILD(test_shards_take_much_before_spans, takes_much_before_spans)
IN_CHILD(test_shards_take_little_from_many, takes_little_from_many)
IN_CHILD(test_shards_share_the_bound, share_the_bound)
IN_CHILD(test_shards_do_not_grow_beyond_their_share, does_not_grow_beyond_its_share)
IN_CHILD(test_shards_are_for_small_classes, large_classes_have_one)
IN_CHILD(test_shards_keep_nothing_without_memory, last_objects_go_to_whoever_asks)
IN_CHILD(test_shards_are_enough_for_any_number, are_enough_for_any_number)
IN_CHILD(test_shards_hold_more_for_many_cpus, hold_more_for_many_cpus)
IN_CHILD(test_shards_do_without_memory, do_without_memory)
IN_CHILD(test_shards_refuse_a_split, split_is_refused)
IN_CHILD(test_shards_keep_domains_apart, split_keeps_domains_apart)
IN_CHILD(test_shards_part_those_that_shared, split_parts_those_that_shared)
IN_CHILD(test_shards_part_large_classes, split_parts_large_classes)
IN_CHILD(test_shards_leave_no_domain_out, split_leaves_none_out)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_give_back_their_own),
        cmocka_unit_test(test_shards_take_what_others_need_least),
        cmocka_unit_test(test_shards_take_much_before_spans),
        cmocka_unit_test(test_shards_take_little_from_many),
        cmocka_unit_test(test_shards_share_the_bound),
        cmocka_unit_test(test_shards_do_not_grow_beyond_their_share),
        cmocka_unit_test(test_shards_are_for_small_classes),
        cmocka_unit_test(test_shards_keep_nothing_without_memory),
        cmocka_unit_test(test_shards_are_enough_for_any_number),
        cmocka_unit_test(test_shards_hold_more_for_many_cpus),
        cmocka_unit_test(test_shards_do_without_memory),
        cmocka_unit_test(test_shards_refuse_a_split),
        cmocka_unit_test(test_shards_keep_domains_apart),
        cmocka_unit_test(test_shards_part_those_that_shared),
        cmocka_unit_test(test_shards_part_large_classes),
        cmocka_unit_test(test_shards_leave_no_domain_out),
        cmocka_unit_test(test_shards_hand_nothing_out_twice),
        /* From here on the cache is split, which cannot be undone. */
        cmocka_unit_test(test_shards_hand_nothing_out_twice_across_domains),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("transfer_shards", tests, NULL, NULL);
}
