/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the heap asks of the kernel's transparent hugepages, on a system that exists only here
 * (fake_system.h): which hugepages are advised, that memory which the program does not use is not
 * lost by it, and that what stands with the kernel is what the heap believes.
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

static uint64_t now_ns = 1000000000;
static uint64_t collapse_ns; /* CPU time that each collapse takes; nothing else takes any */

uint64_t __real_sa_vdso_clock_ns(clockid_t clock);
uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock);

uint64_t __wrap_sa_vdso_clock_ns(clockid_t clock)
{
    uint64_t ns = fake.collapses * collapse_ns;

    if (clock != CLOCK_THREAD_CPUTIME_ID)
        return __real_sa_vdso_clock_ns(clock);
    return ns;
}

/* A span of which the first pages are written to. */
static struct sa_span *take(size_t pages, bool dense, size_t touched)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, pages, 1, dense ? SA_PAGES_DENSE : SA_PAGES_ANY);

    assert_non_null(s);
    fake_own(s->start, pages, true);
    fake_touch(s->start, touched);
    return s;
}

static void give(struct sa_span *s)
{
    fake_own(s->start, s->pages, false);
    sa_page_heap_free(HEAP, s, false);
}

/* Half a second; hugepages are made for as long as it takes. */
static void tick(void)
{
    sa_page_heap_tick(HEAP, now_ns += 500000000);
    sa_page_heap_collapse(HEAP, UINT64_MAX);
}

static void ticks(int n)
{
    for (int i = 0; i < n; i++)
        tick();
}

/* Small heaps are left alone while they are young. */
static void grow_old(void)
{
    for (int i = 0; i < 12; i++)
        sa_page_heap_tick(HEAP, now_ns += 500000000);
}

/* Pages that have memory, in use or not. */
static size_t pages_that(unsigned what)
{
    size_t n = 0;

    for (size_t i = 0; i < FAKE_PAGES; i++)
        n += (fake.pages[i] & what) == what;
    return n;
}

static void check(void)
{
    page_heap_check();
    program_check_memory();
    fake_check_advice();
}

/* Spans of many objects: advised once the heap is large, all of them; which makes few mappings. */
static void dense_spans(void *unused)
{
    (void)unused;
    for (int i = 0; i < 60 * 128; i++) /* MiB of one page each */
        take(1, true, 1);
    assert_int_equal(HUGE_HEAP->collapse.advised, 0);
    assert_true(pages_that(FAKE_MEMORY) == 60 * 128);
    for (int i = 0; i < 964 * 128; i++)
        take(1, true, 1);
    assert_true(HUGE_HEAP->collapse.advised >= 960 / 2);
    assert_in_range(HUGE_HEAP->advisor.edges, 1, 2);
    assert_in_range(pages_that(FAKE_MEMORY), 1024 * 128, 1024 * 128 + SA_HUGE_PAGES);
    check();
}

/* Of fewer objects: advised as long as the program writes to them everywhere, but for each eighth.
 * What is lost when it ceases to is bounded. */
static void sparse_spans(void *unused)
{
    size_t advised, memory;

    (void)unused;
    for (int i = 0; i < 1024 * 8; i++) /* 1 GiB */
        take(16, false, 15);
    advised = HUGE_HEAP->collapse.advised;
    assert_in_range(advised, (1024 - 260) / 2 * 7 / 8, (1024 - 250) / 2 * 7 / 8);
    check();
    /* The probes are collapsed later. */
    ticks(200);
    assert_int_equal(pages_that(FAKE_MEMORY), 1024 * 128);
    memory = pages_that(FAKE_MEMORY);
    for (int i = 0; i < 1024 * 8; i++)
        take(16, false, 1);
    ticks(200);
    memory = pages_that(FAKE_MEMORY) - memory;
    /* A page of each, 24 hugepages between a probe and its effect, one at most in use before. */
    assert_in_range(memory, 1024 * 8, 1024 * 8 + 25 * SA_HUGE_PAGES);
    advised = HUGE_HEAP->collapse.advised;
    /* It is used again: not at once, and then as before. */
    for (int i = 0; i < 20 * 16; i++)
        take(16, false, 16);
    assert_int_equal(HUGE_HEAP->collapse.advised, advised);
    for (int i = 0; i < 1000 * 8; i++)
        take(16, false, 16);
    assert_true(HUGE_HEAP->collapse.advised > advised + 400);
    check();
}

/* Spans of which little is written to, from the start: never. */
static void unused_spans(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2048 * 8; i++)
        take(16, false, 8);
    ticks(100);
    assert_int_equal(HUGE_HEAP->collapse.advised, 0);
    assert_int_equal(fake.collapses, 0);
    assert_int_equal(pages_that(FAKE_MEMORY), 2048 * 8 * 8);
    check();
}

/* Large spans that are nearly all there is: never, though they get hugepages that were. */
static void large_spans(void *unused)
{
    enum { SPANS = 1024 * 8 };
    static struct sa_span *spans[SPANS];
    struct sa_span *s;

    (void)unused;
    for (int i = 0; i < SPANS; i++)
        spans[i] = take(16, true, 16);
    assert_true(HUGE_HEAP->collapse.advised >= 480);
    for (int i = 0; i < SPANS; i++)
        give(spans[i]);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    check();
    assert_int_equal(pages_that(FAKE_MEMORY), 0);
    s = take(1024 * 128, false, 0);
    for (size_t at = 0; at < 1024 * 128; at += SA_HUGE_PAGES)
        fake_touch(s->start + (at << SA_PAGE_SHIFT), 1);
    assert_int_equal(pages_that(FAKE_MEMORY), 512);
    assert_int_equal(HUGE_HEAP->collapse.advised, 0);
    ticks(100);
    assert_int_equal(pages_that(FAKE_MEMORY), 512);
    check();
    /* And what they used serves small ones again, advised. */
    give(s);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    for (int i = 0; i < SPANS; i++)
        spans[i] = take(16, true, 16);
    assert_true(HUGE_HEAP->collapse.advised >= 480);
    check();
}

/* Large spans that the program writes to: their hugepages, but for each eighth span; not what is
 * long for such a heap, and not when the latest are not written to any more. */
static void used_large_spans(void *unused)
{
    size_t advised, memory, before;

    (void)unused;
    for (int i = 0; i < 512; i++) /* 1 GiB */
        take(SA_HUGE_PAGES, false, SA_HUGE_PAGES);
    advised = HUGE_HEAP->collapse.advised;
    assert_in_range(advised, (512 - 140) * 7 / 8, (512 - 128) * 7 / 8 + 1);
    take(SA_HUGE_PAGES * 20, false, SA_HUGE_PAGES * 20);
    assert_int_equal(HUGE_HEAP->collapse.advised, advised);
    check();
    memory = pages_that(FAKE_MEMORY);
    for (int i = 0; i < 400; i++)
        take(SA_HUGE_PAGES, false, 1);
    memory = pages_that(FAKE_MEMORY) - memory;
    assert_in_range(memory, 400, 400 + (8 * SA_LARGE_PROBES + 8) * SA_HUGE_PAGES);
    before = HUGE_HEAP->collapse.advised;
    for (int i = 0; i < 20; i++)
        take(SA_HUGE_PAGES, false, SA_HUGE_PAGES);
    assert_true(HUGE_HEAP->collapse.advised > before);
    ticks(200);
    check();
}

/* The hugepage of a tail is advised while others take the rest of such hugepages, and otherwise
 * not; and what is freed is not looked at. */
static void tails(void *unused)
{
    size_t memory, more;

    (void)unused;
    for (int i = 0; i < 512 * 8; i++) /* 512 MiB */
        take(16, false, 16);
    ticks(100);
    memory = pages_that(FAKE_MEMORY);
    for (int i = 0; i < 30; i++)
        take(SA_HUGE_PAGES + 1, false, SA_HUGE_PAGES + 1);
    more = pages_that(FAKE_MEMORY) - memory - 30 * (SA_HUGE_PAGES + 1);
    assert_in_range(more, SA_HUGE_PAGES, 512 * 128 / 64 + SA_HUGE_PAGES);
    for (int i = 0; i < 100; i++) {
        give(take(SA_HUGE_PAGES * 2, false, 1));
        sa_page_heap_release(HEAP, PTRDIFF_MAX);
    }
    for (int i = 0; i < SA_LARGE_PROBES; i++)
        assert_int_equal(HUGE_HEAP->advisor.large[i].n, 0);
    check();
}

/* A partially released hugepage is excluded, and collapsed when it has filled up again. */
static void breaks_and_mends(void *unused)
{
    enum { SPANS = 512 * 8 };
    static struct sa_span *spans[SPANS];
    size_t subreleased;

    (void)unused;
    grow_old();
    for (int i = 0; i < SPANS; i++)
        spans[i] = take(16, true, 16);
    ticks(60);
    assert_int_equal(HUGE_HEAP->filler.kinds[SA_HUGE_REGULAR], 256);
    for (int i = 0; i < SPANS; i += 2)
        give(spans[i]);
    ticks(10);
    sa_page_heap_release(HEAP, PTRDIFF_MAX);
    subreleased = HUGE_HEAP->filler.kinds[SA_HUGE_RELEASED];
    assert_true(subreleased >= 255);
    assert_true(HUGE_HEAP->collapse.thp_disabled >= 200);
    assert_int_equal(pages_that(FAKE_MEMORY), SPANS * 8);
    check();
    for (int i = 0; i < SPANS; i += 2)
        spans[i] = take(16, true, 16);
    ticks(60);
    assert_int_equal(HUGE_HEAP->collapse.thp_disabled, 0);
    assert_int_equal(HUGE_HEAP->filler.kinds[SA_HUGE_RELEASED], 0);
    assert_int_equal(pages_that(FAKE_MEMORY), SPANS * 16);
    check();
}

/* Advised hugepages between others: the number of mappings stays far below the kernel's bound. */
static void many_edges(void *unused)
{
    (void)unused;
    for (int i = 0; i < 4200; i++) {
        take(SA_HUGE_PAGES, false, 1);
        take(SA_HUGE_PAGES / 2, true, 1);
        take(SA_HUGE_PAGES / 2, true, 1);
    }
    assert_in_range(HUGE_HEAP->advisor.edges, 8000, 8192 + 2);
    assert_true(HUGE_HEAP->collapse.refused > 50);
    check();
}

/* The kernel makes no hugepages for a while: it is asked now and then only, and again later. */
static void refuses(void *unused)
{
    size_t tried;

    (void)unused;
    grow_old();
    for (int i = 0; i < 60 * 8; i++)
        take(16, false, 16);
    fake.collapse_fails = true;
    ticks(10);
    tried = HUGE_HEAP->collapse.tried;
    assert_in_range(tried, 16, 32);
    ticks(5);
    assert_int_equal(HUGE_HEAP->collapse.tried, tried);
    fake.collapse_fails = false;
    ticks(100);
    assert_true(HUGE_HEAP->collapse.made > 0);
    check();
}

/* A call ends with the hugepage that has used up its time, and tells how long it took; the next
 * goes on where it has ended, until all have been looked at that were there when time was last
 * told. */
static void in_steps(void *unused)
{
    size_t calls = 0;

    (void)unused;
    grow_old();
    for (int i = 0; i < 40 * 16; i++) /* 40 hugepages */
        take(16, false, 16);
    for (int i = 0; i < 10 * 16; i++)
        take(16, false, 1);
    collapse_ns = 6000000;
    sa_page_heap_tick(HEAP, now_ns += 500000000);
    while (fake.collapses < 40) {
        assert_int_equal(sa_page_heap_collapse(HEAP, 500000), 6000000);
        assert_int_equal(fake.collapses, ++calls);
    }
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000),
                     1); /* as good as nothing, but not nothing */
    assert_int_equal(HUGE_HEAP->collapse.sparse, 10);
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000), 0);
    take(SA_HUGE_PAGES * 20, false, SA_HUGE_PAGES * 20);
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000), 0);
    tick(); /* large spans are gone through from the next round on */
    sa_page_heap_tick(HEAP, now_ns += 500000000);
    collapse_ns = 200000;
    for (int i = 0; i < 6; i++)
        assert_int_equal(sa_page_heap_collapse(HEAP, 500000), 600000);
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000), 400000);
    assert_int_equal(fake.collapses, 60);
    assert_int_equal(HUGE_HEAP->collapse.sparse, 30); /* looked at again */
    assert_int_equal(sa_page_heap_collapse(HEAP, 500000), 0);
    check();
}

struct choice {
    const char *mode;
    enum sa_hugepages choice;
    unsigned all, none; /* what all, and none, of the pages in use bear */
};

static void chosen(void *arg)
{
    const struct choice *c = arg;

    fake.mode = c->mode;
    fake.eager = strstr(c->mode, "[always]") && c->choice != SA_HUGEPAGES_OFF;
    sa_page_heap_set_hugepages(HEAP, c->choice);
    for (int i = 0; i < 100; i++) {
        take(16, true, 16);
        take(100, false, 100);
        take(1000, false, 1);
    }
    sa_page_heap_collapse(HEAP, UINT64_MAX);
    for (size_t i = 0; i < FAKE_PAGES; i++) {
        if (!(fake.pages[i] & FAKE_OWNED))
            continue;
        assert_int_equal(fake.pages[i] & c->all, c->all);
        assert_int_equal(fake.pages[i] & c->none, 0);
    }
    if (c->choice == SA_HUGEPAGES_OFF)
        assert_int_equal(fake.collapses, 0);
    check();
}

static void test_thp_policy_follows_the_option(void **state)
{
    static struct choice choices[] = {
        {"always [madvise] never\n", SA_HUGEPAGES_OFF, 0, FAKE_ADVISED | FAKE_NO_HUGEPAGES},
        {"always [madvise] never\n", SA_HUGEPAGES_ALWAYS, FAKE_ADVISED, 0},
        {"always madvise [never]\n", SA_HUGEPAGES_ALWAYS, 0, FAKE_ADVISED | FAKE_NO_HUGEPAGES},
        {"always madvise [never]\n", SA_HUGEPAGES_AUTO, 0, FAKE_ADVISED | FAKE_NO_HUGEPAGES},
        {"[always] madvise never\n", SA_HUGEPAGES_AUTO, 0, FAKE_ADVISED | FAKE_NO_HUGEPAGES},
        {"[always] madvise never\n", SA_HUGEPAGES_OFF, FAKE_NO_HUGEPAGES, FAKE_ADVISED},
    };

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(choices); i++)
        test_child_passes(chosen, &choices[i]);
}

#define THP_POLICY_TEST(name, what)                                                                \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        test_child_passes(what, NULL);                                                             \
    }

THP_POLICY_TEST(test_thp_policy_advises_dense_spans, dense_spans)
THP_POLICY_TEST(test_thp_policy_advises_sparse_spans_that_are_used, sparse_spans)
THP_POLICY_TEST(test_thp_policy_does_not_advise_spans_that_are_not_used, unused_spans)
THP_POLICY_TEST(test_thp_policy_does_not_advise_the_longest_spans, large_spans)
THP_POLICY_TEST(test_thp_policy_advises_large_spans_that_are_used, used_large_spans)
THP_POLICY_TEST(test_thp_policy_does_not_advise_tails_that_nobody_shares, tails)
THP_POLICY_TEST(test_thp_policy_withdraws_advice_and_gives_it_again, breaks_and_mends)
THP_POLICY_TEST(test_thp_policy_makes_no_more_mappings_than_there_may_be, many_edges)
THP_POLICY_TEST(test_thp_policy_pauses_when_the_kernel_refuses, refuses)
THP_POLICY_TEST(test_thp_policy_collapses_in_steps, in_steps)

/* One of 33 blocks of 64 KiB stays of 1 GiB: the rest goes back, and is kept out of hugepages where
 * the kernel would otherwise put it back. */
static void keep_few(void *always)
{
    enum { BLOCKS = 16384 };
    static struct sa_span *block[BLOCKS];
    struct sa_page_heap_stats stats;
    size_t kept = 0, out = 0;

    fake.random.state = 78;
    fake.eager = always != NULL;
    if (always)
        fake.mode = "[always] madvise never\n";
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = sa_page_heap_alloc(HEAP, 8, 1, SA_PAGES_ANY);
        fake_own(block[i]->start, 8, true);
        fake_touch(block[i]->start, 8);
        if (i % 1000 == 0)
            tick();
    }
    assert_true(always || fake.collapses > 50); /* the first ones, which were not advised */
    for (int i = 0; i < BLOCKS; i++) {
        if (i % 33 == 0) {
            kept += 8;
            continue;
        }
        fake_own(block[i]->start, 8, false);
        sa_page_heap_free(HEAP, block[i], false);
    }
    for (int i = 0; i < 20; i++) /* ten seconds */
        tick();
    sa_page_heap_stats(HEAP, &stats);
    assert_int_equal(stats.in_use_bytes, kept << SA_PAGE_SHIFT);
    assert_in_range(stats.backed_bytes, 0, 2 * MIB);
    for (size_t i = 0; i < FAKE_PAGES; i++)
        out += (fake.pages[i] & FAKE_NO_HUGEPAGES) != 0;
    assert_true(out >= BLOCKS * 8 / 2);
    page_heap_check();
    program_check_memory();
    fake_check_advice();
}

static void test_thp_policy_withholds_few_of_many(void **state)
{
    (void)state;
    test_child_passes(keep_few, NULL);
    test_child_passes(keep_few, "always");
}

/* Hugepages that are taken but not written to are not collapsed: that would take memory. */
static void leave_sparse(void *unused)
{
    (void)unused;
    grow_old();
    for (int i = 0; i < 100; i++)
        fake_own(sa_page_heap_alloc(HEAP, 256, 1, SA_PAGES_ANY)->start, 256, SA_PAGES_DENSE);
    for (int i = 0; i < 2000; i++)
        fake_own(sa_page_heap_alloc(HEAP, 8, 1, SA_PAGES_DENSE)->start, 8, true);
    for (int i = 0; i < 100; i++)
        tick();
    assert_int_equal(fake.collapses, 0);
    assert_true(HEAP->huge->collapse.sparse > 100);
}

static void test_thp_policy_enables_only_used_hugepages(void **state)
{
    (void)state;
    test_child_passes(leave_sparse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thp_policy_advises_dense_spans),
        cmocka_unit_test(test_thp_policy_advises_sparse_spans_that_are_used),
        cmocka_unit_test(test_thp_policy_does_not_advise_spans_that_are_not_used),
        cmocka_unit_test(test_thp_policy_does_not_advise_the_longest_spans),
        cmocka_unit_test(test_thp_policy_advises_large_spans_that_are_used),
        cmocka_unit_test(test_thp_policy_does_not_advise_tails_that_nobody_shares),
        cmocka_unit_test(test_thp_policy_withdraws_advice_and_gives_it_again),
        cmocka_unit_test(test_thp_policy_makes_no_more_mappings_than_there_may_be),
        cmocka_unit_test(test_thp_policy_pauses_when_the_kernel_refuses),
        cmocka_unit_test(test_thp_policy_collapses_in_steps),
        cmocka_unit_test(test_thp_policy_follows_the_option),
        cmocka_unit_test(test_thp_policy_withholds_few_of_many),
        cmocka_unit_test(test_thp_policy_enables_only_used_hugepages),
    };

    test_start_layers();
    if (sa_vm.page_step != 1 || sa_vm.page_bytes != 4096)
        return 77; /* lengths are exact here */
    fake_begin();
    return cmocka_run_group_tests_name("huge_advice", tests, NULL, NULL);
}
