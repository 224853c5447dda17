/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small heaps and transparent hugepages, on a system that exists only here (fake_system.h): where
 * the first touch of a hugepage is slow and that of a small page is not, few are asked for, however
 * large the heap is; and none is collapsed while the program is young.
 */
#include "alloc/page_heap/huge/huge_heap_internal.h"

#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/fake_system.h"
#include "test/support/huge_program.h"
#include "test/support/page_heap_walk.h"
#include "test/support/start.h"

#include <string.h>
#include <time.h>

#define HEAP      (&sa_page_heap_ordinary)
#define HUGE_HEAP (HEAP->huge)
#define MIB       (1ul << 20)
#define MIB_PAGES (MIB >> SA_PAGE_SHIFT)

static uint64_t now_ns = 1000000000;
static uint64_t cpu_ns; /* CPU time so far */
static uint64_t touch_ns,
    small_ns; /* what each first touch of the heap's takes: of a hugepage, a small one */
static uint64_t whole_ns;             /* and each collapse; nothing else takes any */
static size_t touches, small_touches; /* that have been counted in cpu_ns */
static size_t collapses;

static size_t large_touches(void)
{
    return fake.touches - fake.small_touches;
}

uint64_t __real_sa_vdso_clock_ns(clockid_t clock);
uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    if (clock != CLOCK_THREAD_CPUTIME_ID)
        return __real_sa_vdso_clock_ns(clock);
    cpu_ns += (large_touches() - touches) * touch_ns;
    touches = large_touches();
    cpu_ns += (fake.small_touches - small_touches) * small_ns;
    small_touches = fake.small_touches;
    cpu_ns += (fake.collapses - collapses) * whole_ns;
    collapses = fake.collapses;
    return cpu_ns;
}

/* Takes spans of so many pages each, which the program uses. */
static void use_spans(size_t mib, size_t pages, enum sa_pages_use how)
{
    for (size_t i = 0; i < mib * MIB_PAGES; i += pages) {
        struct sa_span *s = sa_page_heap_alloc(HEAP, pages, 1, how);

        assert_non_null(s);
        fake_own(s->start, pages, true);
        fake_touch(s->start, pages);
    }
}

static void use(size_t mib)
{
    use_spans(mib, 1, SA_PAGES_DENSE);
}

static void check(void)
{
    page_heap_check();
    program_check_memory();
    fake_check_advice();
}

/* 0.2 ms, as where the kernel has the memory: from 64 MiB on all are advised, and each is timed. */
static void quick(void *unused)
{
    (void)unused;
    touch_ns = 200000;
    use(64);
    assert_int_equal(fake.touches, 0);
    use(192);
    assert_in_range(fake.touches, 95, 97);
    assert_in_range(HUGE_HEAP->collapse.advised, 95, 97);
    use(512 + 64);
    assert_in_range(fake.touches, 383, 385);
    assert_in_range(HUGE_HEAP->collapse.advised, 383, 385);
    assert_int_equal(fake.small_touches, 0);
    check();
}

/* 4 ms: after the first, 16 are left out, then 32, 64, 128, 256, 512; small pages are looked at on
 * the first of each number, and on every 64th. */
static void slow(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    small_ns = 1000;
    use(64 + 2 * (1 + 16));
    assert_int_equal(large_touches(), 1);
    assert_int_equal(fake.small_touches, 2);
    use(2);
    assert_int_equal(large_touches(), 2);
    use(2 * (32 + 1 + 64 + 1 + 128 + 1));
    assert_int_equal(large_touches(), 5);
    assert_int_equal(fake.small_touches, 2 * (1 + 1 + 1 + 2));
    use(2 * (256 + 1 + 512));
    assert_int_equal(large_touches(), 6);
    assert_int_equal(fake.small_touches, 2 * (5 + 4 + 8));
    assert_int_equal(HUGE_HEAP->collapse.advised, 6);
    assert_int_equal(HUGE_HEAP->touches.withheld, 0);
    check();
}

/* The number that is left out is 1024 at most, and a quarter of the last after a quick touch. */
static void slow_for_long(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    small_ns = 1000;
    use(64 + 2);
    HUGE_HEAP->touches.withheld = 0;
    HUGE_HEAP->touches.withhold = 1024;
    use(2);
    assert_int_equal(HUGE_HEAP->touches.withheld, 1024);
    HUGE_HEAP->touches.withheld = 0;
    HUGE_HEAP->touches.withhold = 127;
    touch_ns = 200000;
    use(2);
    assert_int_equal(HUGE_HEAP->touches.withheld, 31);
    HUGE_HEAP->touches.withheld = 0;
    use(2);
    assert_int_equal(HUGE_HEAP->touches.withheld, 0);
    assert_int_equal(HUGE_HEAP->touches.withhold, 0);
    check();
}

/* Small pages are slow, too: three times that is looked at, then hugepages are advised, and 64
 * times not timed. */
static void slow_everywhere(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    small_ns = 10000;
    use(64 + 2 * 4);
    assert_int_equal(large_touches(), 1);
    assert_int_equal(fake.small_touches, 2 * 3);
    use(2 * 64);
    assert_int_equal(large_touches(), 1);
    assert_int_equal(HUGE_HEAP->collapse.advised, 1 + 64);
    use(2 * 4);
    assert_int_equal(large_touches(), 2);
    assert_int_equal(fake.small_touches, 2 * 6);
    assert_int_equal(HUGE_HEAP->collapse.advised, 1 + 64 + 1);
    check();
}

/* Of longer spans four small pages are touched; all but the first are timed, and five microseconds
 * each are slow. */
static void slow_small(void *ns)
{
    bool slow = *(uint64_t *)ns >= 5000;

    touch_ns = 4000000;
    small_ns = *(uint64_t *)ns;
    use(64);
    use_spans(2 * 4, 8, SA_PAGES_DENSE);
    assert_int_equal(large_touches(), 1);
    assert_int_equal(fake.small_touches, 4 * (slow ? 3 : 1));
    assert_int_equal(HUGE_HEAP->touches.not_timed, slow ? 64 : 0);
    assert_int_equal(HUGE_HEAP->touches.withhold, slow ? 0 : 16);
    check();
}

/* From 256 MiB on hugepages of spans of few objects are timed, too, where they are advised; and
 * large spans and tails are not advised where others would be left out. */
static void slow_sparse(void *unused)
{
    struct sa_huge_advisor *a = &HUGE_HEAP->advisor;
    size_t advised;

    (void)unused;
    touch_ns = 200000;
    small_ns = 1000;
    use(280);
    memset(a->seen, 100, sizeof(a->seen));
    memset(a->large_seen, 100, sizeof(a->large_seen));
    touch_ns = 4000000;
    use_spans(2, 128, SA_PAGES_ANY);
    advised = HUGE_HEAP->collapse.advised;
    assert_int_equal(HUGE_HEAP->touches.withheld, 16);
    use_spans(2 * 2, 128, SA_PAGES_ANY);
    assert_int_equal(HUGE_HEAP->touches.withheld, 14);
    assert_int_equal(HUGE_HEAP->touches.to_make_up, 2);
    use_spans(3, SA_HUGE_PAGES * 3 / 2, SA_PAGES_ANY);
    assert_int_equal(HUGE_HEAP->touches.withheld, 13);
    assert_int_equal(HUGE_HEAP->touches.to_make_up, 3);
    assert_int_equal(HUGE_HEAP->collapse.advised, advised);
    assert_int_equal(fake.small_touches, 4);
    check();
}

/* A small heap makes up for nothing; and what it owes is no more than it has. */
static void small_again(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    small_ns = 1000;
    use(64 + 2 * 20);
    assert_in_range(HUGE_HEAP->touches.to_make_up, 15, 20);
    assert_false(sa_huge_heap_makes_up(HUGE_HEAP));
    HUGE_HEAP->touches.to_make_up = 1000;
    use(2 * 5);
    assert_int_equal(HUGE_HEAP->touches.to_make_up, HUGE_HEAP->mapped);
    check();
}

/* Where the kernel takes no advice, nothing is timed. */
static void refused(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    fake.advise_fails = SIZE_MAX;
    use(64 + 20);
    assert_int_equal(fake.touches, 0);
    check();
}

/* A small page that took long once says nothing. */
static void slow_once(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    small_ns = 10000;
    use(64 + 2 * 3);
    assert_int_equal(fake.small_touches, 2 * 2);
    small_ns = 1000;
    use(2 * 2);
    assert_int_equal(fake.small_touches, 2 * 3);
    assert_int_equal(HUGE_HEAP->touches.withheld, 16 - 4);
    assert_int_equal(HUGE_HEAP->collapse.advised, 1);
    check();
}

/* What was withheld is collapsed the sooner when the heap is large and a collapse is quick: it
 * counts for a twelfth of the time; and from 512 MiB on all counts for a quarter of it. */
static void made_up(void *unused)
{
    size_t withheld;

    (void)unused;
    touch_ns = 4000000;
    small_ns = 1000;
    use(320);
    withheld = HUGE_HEAP->touches.to_make_up;
    assert_in_range(withheld, 123, 125);
    for (int i = 0; i < 12; i++)
        sa_page_heap_tick(HEAP, now_ns += 500000000);
    whole_ns = 6000000;
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000), whole_ns);
    whole_ns = 600000;
    for (size_t i = 1; i < withheld; i++)
        assert_int_equal(sa_page_heap_collapse(HEAP, 500000), whole_ns / 12);
    assert_int_equal(fake.collapses, withheld);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(sa_page_heap_collapse(HEAP, 500000), whole_ns);
    touch_ns = 200000;
    use(200); /* 520 MiB */
    HUGE_HEAP->touches.to_make_up = 0;
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000), whole_ns / 4);
    check();
}

/* When a touch is quick again, so is the next one taken to be. */
static void slow_at_first(void *unused)
{
    (void)unused;
    touch_ns = 4000000;
    small_ns = 1000;
    use(64 + 2);
    assert_int_equal(large_touches(), 1);
    touch_ns = 200000;
    use(2 * 16 + 2 * 10);
    assert_in_range(large_touches(), 10, 12);
    check();
}

struct heap {
    size_t mib, owes;
};

/* Of 60 MiB in use nothing is collapsed for five seconds; of 600 MiB at once, but where hugepages
 * were left out. */
static void young(void *arg)
{
    struct heap *heap = arg;
    size_t n = heap->mib;

    for (size_t i = 0; i < n; i++) {
        struct sa_span *s = sa_page_heap_alloc(HEAP, SA_HUGE_PAGES / 2, 1, SA_PAGES_ANY);

        fake_own(s->start, SA_HUGE_PAGES / 2, true);
        fake_touch(s->start, SA_HUGE_PAGES / 2);
    }
    HUGE_HEAP->touches.to_make_up = heap->owes;
    for (int i = 0; i < 10; i++) {
        sa_page_heap_tick(HEAP, now_ns += 500000000);
        sa_page_heap_collapse(HEAP, UINT64_MAX);
        assert_int_equal(fake.collapses != 0, n >= 512 && !heap->owes);
    }
    sa_page_heap_tick(HEAP, now_ns += 500000000);
    sa_page_heap_collapse(HEAP, UINT64_MAX);
    assert_true(fake.collapses >= 25);
    check();
}

#define TOUCH_TEST(name, what)                                                                     \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        test_child_passes(what, NULL);                                                             \
    }

TOUCH_TEST(test_first_touches_that_are_quick_change_nothing, quick)
TOUCH_TEST(test_first_touches_that_are_slow_are_few, slow)
TOUCH_TEST(test_first_touches_that_are_slow_for_long_are_fewer, slow_for_long)
TOUCH_TEST(test_first_touches_that_are_slow_everywhere_are_made, slow_everywhere)
TOUCH_TEST(test_first_touches_that_are_slow_once_are_not_slow, slow_once)
TOUCH_TEST(test_first_touches_that_are_withheld_are_made_up_for, made_up)
TOUCH_TEST(test_first_touches_that_are_quick_again_are_taken_for_that, slow_at_first)

TOUCH_TEST(test_first_touches_of_sparse_spans_are_timed, slow_sparse)
TOUCH_TEST(test_first_touches_in_small_heaps_are_not_made_up_for, small_again)
TOUCH_TEST(test_first_touches_without_advice_are_not_timed, refused)

static void test_first_touches_of_small_pages_count_from_the_second(void **state)
{
    uint64_t quick_ns = 4900, slow_ns = 5000;

    (void)state;
    test_child_passes(slow_small, &quick_ns);
    test_child_passes(slow_small, &slow_ns);
}

static void test_young_heaps_are_left_alone_while_small(void **state)
{
    struct heap small = {60, 0}, large = {600, 0}, slow_large = {600, 200};

    (void)state;
    test_child_passes(young, &small);
    test_child_passes(young, &large);
    test_child_passes(young, &slow_large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_touches_that_are_quick_change_nothing),
        cmocka_unit_test(test_first_touches_that_are_slow_are_few),
        cmocka_unit_test(test_first_touches_that_are_slow_for_long_are_fewer),
        cmocka_unit_test(test_first_touches_that_are_slow_everywhere_are_made),
        cmocka_unit_test(test_first_touches_that_are_slow_once_are_not_slow),
        cmocka_unit_test(test_first_touches_that_are_withheld_are_made_up_for),
        cmocka_unit_test(test_first_touches_that_are_quick_again_are_taken_for_that),
        cmocka_unit_test(test_first_touches_of_small_pages_count_from_the_second),
        cmocka_unit_test(test_first_touches_of_sparse_spans_are_timed),
        cmocka_unit_test(test_first_touches_in_small_heaps_are_not_made_up_for),
        cmocka_unit_test(test_first_touches_without_advice_are_not_timed),
        cmocka_unit_test(test_young_heaps_are_left_alone_while_small),
    };

    test_start_layers();
    if (sa_vm.page_step != 1 || sa_vm.page_bytes != 4096)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_touch", tests, NULL, NULL);
}
