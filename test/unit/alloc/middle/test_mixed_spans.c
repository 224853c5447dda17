/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixed spans: blocks of all classes, taken and given back at random by way of the central free
 * lists, against a list of blocks; what a span that becomes mixed keeps; which pages go back;
 * lookups of right and wrong addresses; how much is saved; and that a class that is not short of
 * memory has nothing to do with mixed spans.
 */
#include "alloc/middle/mixed_spans.h"

#include "alloc/base/bits.h"
#include "alloc/base/size_class.h"
#include "alloc/middle/central_free_list.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/counts.h"
#include "test/support/random.h"
#include "test/support/start.h"

#define HELD 60000

struct held {
    unsigned char *p;
    unsigned cls;
};

static struct held held[HELD];
static size_t count;

static struct sa_mixed_stats mixed_stats(void)
{
    struct sa_mixed_stats s;

    sa_mixed_stats(&s);
    return s;
}

/* Holds n objects of a class, and writes to both ends of each. */
static void hold(unsigned cls, void **objs, size_t n)
{
    size_t size = sa_size_classes.of[cls].size, align = size & -size;

    for (size_t i = 0; i < n; i++) {
        assert_int_equal((uintptr_t)objs[i] & (sa_min(align, SA_MIXED_ALIGN) - 1), 0);
        assert_true(count < HELD);
        held[count] = (struct held){objs[i], cls};
        held[count].p[0] = (unsigned char)cls;
        held[count].p[size - 1] = (unsigned char)((uintptr_t)objs[i] >> 4);
        count++;
    }
}

/* Takes up to n objects of a class. */
static size_t take(unsigned cls, size_t n)
{
    void *objs[32];

    n = sa_central_remove(cls, objs, n < 32 ? n : 32);
    hold(cls, objs, n);
    return n;
}

/* Takes objects of a class from the mixed spans that there are, until they have no room for one;
 * their bytes. */
static size_t fill_mixed(unsigned cls)
{
    size_t n = 0;
    void *object;

    for (; sa_mixed_take(cls, &object + 1, 1, SA_MIXED_ALIGN); n++)
        hold(cls, &object, 1);
    return n * sa_size_classes.of[cls].size;
}

static void give(size_t i)
{
    struct held h = held[i];
    size_t size = sa_size_classes.of[h.cls].size;
    void *p = h.p;

    assert_int_equal(h.p[0], size > 1 ? h.cls : h.p[0]);
    assert_int_equal(h.p[size - 1], (unsigned char)((uintptr_t)h.p >> 4));
    sa_central_insert(h.cls, &p, 1);
    held[i] = held[--count];
}

static void give_all(void)
{
    while (count)
        give(count - 1);
}

/* What the map says of a block: the class of its page, or else a mixed span that knows it. */
static unsigned class_of(const void *p)
{
    unsigned cls = sa_pagemap_class((uintptr_t)p);

    return cls ? cls : sa_mixed_class((uintptr_t)p);
}

/*
 * Blocks of random classes, with what is live going up and down: contents are whole, so blocks do
 * not overlap; each is known by its class; the objects of each class add up; when all is given
 * back, nothing is in use.
 */
static void test_blocks_of_all_classes(void **state)
{
    struct test_random r = {11};
    size_t in_use = heap_in_use();

    (void)state;
    for (int phase = 0; phase < 60; phase++) {
        unsigned few[4];

        sa_mixed_use = phase % 3 ? SA_MIXED_ALWAYS : SA_MIXED_AUTO; /* AUTO: spans of classes */
        for (int i = 0; i < 4; i++)
            few[i] = 1 + (unsigned)(test_random_next(&r) % (sa_size_class_find(SA_MIXED_MAX)));
        for (int i = 0; i < 400; i++)
            assert_true(take(few[test_random_next(&r) % 4], 1 + test_random_next(&r) % 8) > 0);
        while (count > 300)
            give(test_random_next(&r) % count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(class_of(held[i].p), held[i].cls);
        sa_mixed_validate();
        sa_central_validate();
    }
    assert_true(mixed_stats().conversions > 100);
    assert_true(mixed_stats().taken > 1000);
    for (unsigned cls = 1; cls < sa_size_classes.count; cls++) {
        struct sa_central_stats s = central_stats(cls);
        size_t mine = 0;

        for (size_t i = 0; i < count; i++)
            mine += held[i].cls == cls;
        assert_int_equal(s.spans * sa_size_classes.of[cls].objects + s.mixed_objects,
                         mine + s.free_objects);
    }
    give_all();
    sa_central_flush();
    sa_mixed_validate();
    assert_int_equal(mixed_stats().spans, 0);
    assert_int_equal(mixed_stats().bytes, 0);
    assert_int_equal(mixed_stats().used_bytes, 0);
    assert_int_equal(mixed_stats().saved_bytes, 0);
    assert_int_equal(heap_in_use(), in_use);
    sa_mixed_use = SA_MIXED_AUTO;
}

/* A class with nearly empty spans, all objects given back but each `keep`th. */
static void leave_sparse(unsigned cls, size_t n, size_t keep)
{
    size_t got = 0;

    while (got < n)
        got += take(cls, n - got);
    for (size_t i = count; i--;)
        if (i % keep)
            give(i);
}

/* One block of 16 KiB on each span of two stays where it is, and the pages of the other go back at
 * once. */
static void test_pages_without_a_block_go_back(void **state)
{
    const unsigned cls = sa_size_class_find(4096), other = sa_size_class_find(640);
    size_t objects = sa_size_classes.of[cls].objects, in_use = heap_in_use(), before;
    uint64_t returned = mixed_stats().returned_bytes;

    (void)state;
    assert_true(sa_size_classes.of[cls].pages > 1);
    leave_sparse(cls, 64 * objects, objects);
    before = heap_in_use();
    sa_mixed_use = SA_MIXED_ALWAYS;
    assert_int_equal(take(other, 1), 1);
    sa_mixed_use = SA_MIXED_AUTO;
    assert_int_equal(class_of(held[count - 1].p), other);
    assert_true(mixed_stats().spans > 0);
    assert_true(mixed_stats().returned_bytes - returned >= SA_PAGE_BYTES);
    assert_true(heap_in_use() < before);
    sa_mixed_validate();
    give_all();
    sa_central_flush();
    assert_int_equal(heap_in_use(), in_use);
}

/* Gives back all that is held of a class. */
static void give_class(unsigned cls)
{
    for (size_t i = count; i--;)
        if (held[i].cls == cls)
            give(i);
}

/* The class of the held block with the lowest address. */
static unsigned first_held(void)
{
    size_t first = 0;

    for (size_t i = 1; i < count; i++)
        first = held[i].p < held[first].p ? i : first;
    return held[first].cls;
}

/* Takes all objects of n spans of a class that has none, and gives all back but one of each. */
static void leave_one_each(unsigned cls, size_t n)
{
    size_t objects = sa_size_classes.of[cls].objects, first = count;
    uintptr_t page = 0;

    assert_int_equal(central_stats(cls).spans, 0);
    sa_mixed_use = SA_MIXED_AUTO;
    while (count < first + n * objects)
        assert_true(take(cls, first + n * objects - count) > 0);
    assert_int_equal(central_stats(cls).spans, n);
    for (size_t i = count; i-- > first;) {
        uintptr_t of = (uintptr_t)held[i].p >> SA_PAGE_SHIFT;

        if (of == page)
            give(i);
        page = of;
    }
    sa_mixed_use = SA_MIXED_ALWAYS;
}

/* Saved are the blocks on pages of other classes. What a class has there counts as far as it is
 * more than others have on its own pages. A page without blocks of its class becomes another's. */
static void test_saved_bytes(void **state)
{
    const unsigned host = sa_size_class_find(160), guest = sa_size_class_find(48);
    const unsigned third = sa_size_class_find(320);
    size_t guests, hosts;

    (void)state;
    sa_central_flush();
    assert_int_equal(mixed_stats().bytes, 0);
    leave_one_each(host, 1);
    assert_int_equal(take(guest, 10), 10);
    assert_int_equal(mixed_stats().bytes, SA_PAGE_BYTES);
    assert_int_equal(mixed_stats().saved_bytes, 480);
    assert_int_equal(take(host, 5), 5); /* on its own page */
    assert_int_equal(mixed_stats().bytes, SA_PAGE_BYTES);
    assert_int_equal(mixed_stats().saved_bytes, 480);
    guests = 480 + fill_mixed(guest);
    assert_true(guests > SA_PAGE_BYTES * 3 / 4);
    assert_int_equal(mixed_stats().saved_bytes, guests);

    /* The host moves on to two pages of a third class: first as much as its guests have. */
    leave_one_each(third, 2);
    assert_int_equal(take(host, 1), 1);
    assert_int_equal(mixed_stats().bytes, 2 * SA_PAGE_BYTES);
    hosts = 160 + fill_mixed(host);
    assert_true(hosts <= SA_PAGE_BYTES);
    assert_int_equal(mixed_stats().saved_bytes, sa_max(guests, hosts));
    assert_int_equal(take(host, 1), 1);
    assert_int_equal(mixed_stats().bytes, 3 * SA_PAGE_BYTES);
    hosts += 160 + fill_mixed(host);
    assert_true(hosts > guests);
    assert_int_equal(mixed_stats().saved_bytes, hosts);
    sa_mixed_validate();
    give_class(guest);
    assert_int_equal(mixed_stats().saved_bytes, hosts);
    give_class(host);
    assert_int_equal(mixed_stats().saved_bytes, 0);
    give_all();

    /* The host leaves: the class of the first block on the page is the next one. */
    assert_int_equal(mixed_stats().bytes, 0);
    leave_one_each(host, 1);
    assert_int_equal(take(guest, 10), 10);
    assert_int_equal(take(third, 4), 4);
    assert_int_equal(mixed_stats().bytes, SA_PAGE_BYTES);
    assert_int_equal(mixed_stats().saved_bytes, 10 * 48 + 4 * 320);
    give_class(host);
    assert_int_equal(mixed_stats().saved_bytes, first_held() == guest ? 4 * 320 : 10 * 48);
    sa_mixed_validate();
    give_class(first_held());
    assert_int_equal(mixed_stats().saved_bytes, 0);
    sa_mixed_validate();
    give_all();

    /* A page that mixed spans take is one of the class that it is taken for. */
    assert_int_equal(mixed_stats().bytes, 0);
    assert_int_equal(take(third, 1), 1);
    assert_int_equal(mixed_stats().saved_bytes, 0);
    assert_int_equal(take(guest, 8), 8);
    assert_int_equal(mixed_stats().bytes, SA_PAGE_BYTES);
    assert_int_equal(mixed_stats().saved_bytes, 8 * 48);
    sa_mixed_validate();
    give_all();
    assert_int_equal(mixed_stats().saved_bytes, 0);
    sa_central_flush();
    sa_mixed_use = SA_MIXED_AUTO;
}

/* While little is wasted, spans stay with their class. */
static void test_nothing_is_mixed_where_little_is_wasted(void **state)
{
    const unsigned cls = sa_size_class_find(64), other = sa_size_class_find(1024);
    struct sa_mixed_stats before = mixed_stats();

    (void)state;
    leave_sparse(cls, 4096, 128); /* 256 KiB of 64 bytes: less than 4 MiB */
    while (count < 1000)
        assert_true(take(other, 8) > 0);
    assert_int_equal(mixed_stats().conversions, before.conversions);
    assert_int_equal(mixed_stats().taken, before.taken);
    give_all();
    sa_central_flush();
}

/* Only the start of a block is known as one, only while it is in use, and giving it back twice, or
 * as another class, ends the program. */
static void give_twice(void *arg)
{
    void *p = held[count - 1].p;
    unsigned cls = held[count - 1].cls;

    (void)arg;
    sa_central_insert(cls, &p, 1);
    sa_central_insert(cls, &p, 1);
}

static void give_as_other(void *arg)
{
    void *p = held[count - 1].p;

    (void)arg;
    sa_central_insert(held[count - 1].cls + 1, &p, 1);
}

static void test_wrong_addresses(void **state)
{
    const unsigned cls = sa_size_class_find(160), other = sa_size_class_find(48);
    unsigned char *p;

    (void)state;
    leave_sparse(cls, 51 * 8, 51);
    sa_mixed_use = SA_MIXED_ALWAYS;
    assert_int_equal(take(other, 1), 1);
    p = held[count - 1].p;
    assert_int_equal(sa_mixed_class((uintptr_t)p), other);
    assert_int_equal(sa_mixed_class((uintptr_t)p + 16), 0);
    assert_int_equal(sa_mixed_class((uintptr_t)p + 1), 0);
    assert_false(sa_mixed_is_free((uintptr_t)p));
    assert_false(sa_mixed_is_free((uintptr_t)p + 47));
    assert_int_equal(sa_mixed_class((uintptr_t)&p), 0);
    assert_int_equal(sa_mixed_class(0), 0);
    assert_int_equal(sa_mixed_class(UINTPTR_MAX), 0);
    assert_false(sa_mixed_is_sparse((uintptr_t)p + 16));
    assert_false(sa_mixed_is_sparse((uintptr_t)p + 1));
    assert_false(sa_mixed_is_sparse((uintptr_t)&p));
    assert_false(sa_mixed_is_sparse(0));
    assert_false(sa_mixed_is_sparse(UINTPTR_MAX));
    test_child_aborts(give_twice, NULL, "double free");
    test_child_aborts(give_as_other, NULL, "invalid free");
    give(count - 1);
    assert_int_equal(sa_mixed_class((uintptr_t)p), 0);
    assert_false(sa_mixed_is_sparse((uintptr_t)p));
    assert_true(sa_mixed_is_free((uintptr_t)p));
    sa_mixed_use = SA_MIXED_AUTO;
    give_all();
    sa_central_flush();
}

/* The comparison of fractions with a division. The bits of a long double are enough to tell
 * fractions with denominators below 2^16 and 2^36 apart. */
static bool divided_less(size_t a, size_t of_a, size_t b, size_t of_b)
{
    return (long double)a / (long double)of_a < (long double)b / (long double)of_b;
}

static void test_fractions(void **state)
{
    struct test_random r = {11};

    (void)state;
    for (int i = 0; i < 100000; i++) {
        size_t of_a = test_random_size(&r, 16), a = test_random_below(&r, of_a + 1);
        size_t of_b = test_random_size(&r, 36), b = test_random_below(&r, of_b + 1);
        size_t times = test_random_size(&r, 20);

        assert_int_equal(sa_fraction_less(a, of_a, b, of_b), divided_less(a, of_a, b, of_b));
        assert_false(sa_fraction_less(a, of_a, a * times, of_a * times)); /* equal */
        assert_int_equal(sa_fraction_less(a, of_a, a * times + 1, of_a * times), true);
        assert_false(sa_fraction_less(0, 0, b, of_b));
    }
    assert_false(sa_fraction_less(0, 1, 0, 0)); /* no mixed span */
}

/* Some spans are sparser than the mean and some are not, as their records say. */
static void test_sparse_spans(void **state)
{
    const unsigned cls = sa_size_class_find(160);
    size_t sparse = 0, others = 0;
    struct test_random r = {12};
    struct sa_mixed_stats stats;

    (void)state;
    sa_mixed_use = SA_MIXED_ALWAYS;
    for (int i = 0; i < 20000; i++)
        assert_int_equal(take(cls, 1), 1);
    for (int i = 0; i < 15000; i++)
        give(test_random_below(&r, count));
    stats = mixed_stats();
    for (size_t i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)held[i].p;
        const struct sa_span *s = sa_pagemap_span(address);
        bool less;

        if (s->state != SA_SPAN_MIXED)
            continue;
        less = divided_less(s->live, s->objects, stats.used_bytes, stats.bytes);
        assert_int_equal(sa_mixed_is_sparse(address), less);
        sparse += less;
        others += !less;
    }
    assert_true(sparse && others);
    sa_mixed_use = SA_MIXED_AUTO;
    give_all();
    sa_central_flush();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_mixed_where_little_is_wasted),
        cmocka_unit_test(test_blocks_of_all_classes),
        cmocka_unit_test(test_pages_without_a_block_go_back),
        cmocka_unit_test(test_saved_bytes),
        cmocka_unit_test(test_wrong_addresses),
        cmocka_unit_test(test_fractions),
        cmocka_unit_test(test_sparse_spans),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("mixed_spans", tests, NULL, NULL);
}
