/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page heap when the kernel says no: at its first moments, in the middle of everything, when
 * giving memory back. Each case runs in a child, whose heap nobody has touched.
 */
#include "alloc/page_heap/page_heap.h"

#include "alloc/base/bits.h"
#include "alloc/os/vm.h"
#include "pagemap/arena.h"
#include "pagemap/pagemap.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>
#include <sys/mman.h>

#define HEAP (&sa_page_heap_ordinary)
#define MIB  (1ul << 20)

static struct sa_page_heap_stats stats(void)
{
    struct sa_page_heap_stats s;

    sa_page_heap_stats(HEAP, &s);
    return s;
}

static bool identity_holds(void)
{
    struct sa_page_heap_stats s = stats();

    return s.mapped_bytes == s.in_use_bytes + s.backed_bytes + s.released_bytes + s.moving_bytes;
}

/* The first allocation fails at the n-th mapping, for every n until it succeeds; then all is
 * well. */
static void fail_first_mappings(void *unused)
{
    long calls = 0;
    struct sa_span *s = NULL;

    (void)unused;
    for (; !s; calls++) {
        CHILD_CHECK(calls < 20);
        test_faults_clear();
        test_faults.mmap_after = calls;
        s = sa_page_heap_alloc(HEAP, 4, 1, SA_PAGES_ANY);
        CHILD_CHECK(identity_holds());
    }
    CHILD_CHECK(calls > 1);
    test_faults_clear();
    memset((void *)s->start, 1, sa_span_bytes(s));
    sa_page_heap_free(HEAP, s, false);
    for (int i = 0; i < 1000; i++) {
        s = sa_page_heap_alloc(HEAP, 64, 1, SA_PAGES_ANY);
        CHILD_CHECK(s != NULL);
        memset((void *)s->start, 1, sa_span_bytes(s));
    }
    CHILD_CHECK(identity_holds());
}

static void test_page_heap_recovers_when_first_mappings_fail(void **state)
{
    (void)state;
    test_child_passes(fail_first_mappings, NULL);
}

/* A random load during which no mapping succeeds for a while, again and again. */
static void fail_now_and_then(void *unused)
{
    struct test_random r = {0xfa017};
    struct sa_span *spans[300];
    size_t count = 0, refused = 0;

    (void)unused;
    for (int step = 0; step < 30000; step++) {
        if (step % 500 == 250) {
            test_faults_clear();
            test_faults.mmap_after = (long)test_random_below(&r, 3);
        } else if (step % 500 == 0) {
            test_faults_clear();
        }
        if (count < 300 && test_random_below(&r, 5) < 3) {
            /* Longer ones while mappings fail: more than what is free can serve. */
            size_t pages = test_random_size(&r, step % 500 < 250 ? 9 : 14), align = 1;
            struct sa_span *s;

            if (test_random_below(&r, 4) == 0)
                align <<= test_random_below(&r, 10);
            s = sa_page_heap_alloc(HEAP, pages, align, SA_PAGES_ANY);
            if (s) {
                CHILD_CHECK(s->pages >= pages && s->state == SA_SPAN_LARGE);
                CHILD_CHECK(s->start % (align << SA_PAGE_SHIFT) == 0);
                *(size_t *)s->start = s->start;
                spans[count++] = s;
            } else {
                CHILD_CHECK(step % 500 >= 250); /* never while the kernel gives memory */
                refused++;
            }
        } else if (count) {
            size_t i = test_random_below(&r, count);
            struct sa_span *s = spans[i];

            CHILD_CHECK(*(size_t *)s->start == s->start);
            spans[i] = spans[--count];
            sa_page_heap_free(HEAP, s, false);
        }
        CHILD_CHECK(identity_holds());
    }
    CHILD_CHECK(refused > 100);
    test_faults_clear();
    while (count)
        sa_page_heap_free(HEAP, spans[--count], false);
    CHILD_CHECK(identity_holds());
    CHILD_CHECK(stats().in_use_bytes == 0);
}

static void test_page_heap_survives_mappings_that_fail_now_and_then(void **state)
{
    (void)state;
    test_child_passes(fail_now_and_then, NULL);
}

static struct sa_span *filled_span(size_t bytes)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, bytes >> SA_PAGE_SHIFT, 1, SA_PAGES_ANY);

    CHILD_CHECK(s != NULL);
    memset((void *)s->start, 1, sa_span_bytes(s));
    return s;
}

/* 100 MiB are freed while madvise fails: kept as they are, and not tried for every free. */
static void refuse_release(void *unused)
{
    struct sa_span *spans[100];
    uint64_t now = 5 * SA_RELEASE_NS;
    long calls;

    (void)unused;
    for (int i = 0; i < 100; i++)
        spans[i] = filled_span(MIB);
    test_faults.madvise_after = 0;
    for (int i = 0; i < 100; i++)
        sa_page_heap_free(HEAP, spans[i], false);
    calls = test_faults.madvise_calls;
    CHILD_CHECK(calls >= 1 && calls <= 2);
    CHILD_CHECK(stats().backed_bytes >= 100 * MIB);
    CHILD_CHECK(identity_holds());
    CHILD_CHECK(sa_page_heap_release(HEAP, 10 * MIB) == 0);
    CHILD_CHECK(sa_vm.advise_failures > 0);
    /* Only ticks try again, once each. */
    calls = test_faults.madvise_calls;
    sa_page_heap_tick(HEAP, now += SA_RELEASE_NS);
    sa_page_heap_tick(HEAP, now += SA_RELEASE_NS);
    CHILD_CHECK(test_faults.madvise_calls - calls <= 2);
    CHILD_CHECK(!sa_page_heap_step(HEAP));
    CHILD_CHECK(test_faults.madvise_calls - calls <= 2);
    CHILD_CHECK(stats().backed_bytes >= 100 * MIB);
    /* The memory is still good, and is not taken for zero. */
    spans[0] = sa_page_heap_alloc(HEAP, MIB >> SA_PAGE_SHIFT, 1, SA_PAGES_ANY);
    CHILD_CHECK(spans[0] && !spans[0]->zeroed);
    sa_page_heap_free(HEAP, spans[0], false);
    /* And when the kernel takes memory again, it gets it. */
    test_faults_clear();
    sa_page_heap_tick(HEAP, now += SA_RELEASE_NS);
    sa_page_heap_tick(HEAP, now += SA_RELEASE_NS);
    CHILD_CHECK(stats().backed_bytes <= MIB);
    CHILD_CHECK(identity_holds());
}

static void test_page_heap_keeps_memory_when_release_is_refused(void **state)
{
    (void)state;
    test_child_passes(refuse_release, NULL);
}

/* Freeing a block that was moved to its place needs a fresh mapping there. It is refused, and
 * perhaps so is giving back its pages; or part of the range is not there any more. */
struct refusal {
    long madvise_after;
    bool hole;
};

static void refuse_renewal(void *arg)
{
    const struct refusal *refusal = arg;
    struct sa_span *from = filled_span(MIB), *to = filled_span(MIB), *again;
    uintptr_t start = to->start;
    bool back = false;

    if (!sa_vm_move((void *)from->start, (void *)start, MIB))
        return;
    to->moved = 1;
    sa_page_heap_free(HEAP, from, true);
    if (refusal->hole)
        CHILD_CHECK(munmap((void *)(start + MIB / 2), MIB / 4) == 0);
    test_faults.mmap_after = 0;
    test_faults.madvise_after = refusal->madvise_after;
    sa_page_heap_free(HEAP, to, false);
    test_faults_clear();
    CHILD_CHECK(identity_holds());
    for (int i = 0; i < 50; i++) {
        again = filled_span(MIB); /* zeroed where it says so */
        back = back || again->start == start;
    }
    CHILD_CHECK(back == !refusal->hole);
}

static void test_page_heap_has_a_range_back_when_renewal_is_refused(void **state)
{
    struct refusal gives_back = {FAULT_NEVER, false}, keeps = {0, false};

    (void)state;
    test_child_passes(refuse_renewal, &gives_back);
    test_child_passes(refuse_renewal, &keeps);
}

static void test_page_heap_gives_a_range_up_that_is_not_there(void **state)
{
    struct refusal loses = {FAULT_NEVER, true};

    (void)state;
    test_child_passes(refuse_renewal, &loses);
}

/* The very first request may be a huge one: nothing but address space decides. */
static void first_is_huge(void *pages)
{
    struct sa_span *s = sa_page_heap_alloc(HEAP, *(const size_t *)pages, 1, SA_PAGES_ANY), *second;

    if (!s) {
        /* Fair only if the kernel has no room for it: a mapping of that size must fail, too. */
        void *p = sa_vm_map(NULL, *(const size_t *)pages << SA_PAGE_SHIFT, "salloc:test");

        CHILD_CHECK(p == NULL);
        return;
    }
    *(char *)s->start = 1;
    *(char *)(sa_span_end(s) - 1) = 1;
    second = filled_span(MIB);
    sa_page_heap_free(HEAP, s, false);
    CHILD_CHECK(identity_holds());
    sa_page_heap_free(HEAP, second, false);
}

static void test_page_heap_serves_a_huge_first_request(void **state)
{
    size_t pages;

    (void)state;
    pages = SA_HOME_PAGES / 4;
    test_child_passes(first_is_huge, &pages);
    pages = SA_HOME_PAGES - 1;
    test_child_passes(first_is_huge, &pages);
    pages = 2 * SA_HOME_PAGES;
    test_child_passes(first_is_huge, &pages);
}

/* Blocks of 3 GiB until two windows are full: where one ends must not matter to who asks. */
static void grow_over_windows(void *unused)
{
    const size_t pages = 3 * 1024 * MIB >> SA_PAGE_SHIFT;

    (void)unused;
    for (size_t i = 0; i < 3 * SA_HOME_PAGES / pages; i++) {
        struct sa_span *s = sa_page_heap_alloc(HEAP, pages, 1, SA_PAGES_ANY);

        if (!s && sa_vm.map_failures) /* the kernel's word, not the heap's */
            return;
        CHILD_CHECK(s != NULL);
        *(char *)s->start = 1;
        *(char *)(sa_span_end(s) - 1) = 1;
    }
    CHILD_CHECK(identity_holds());
}

static void test_page_heap_grows_over_the_edge_of_a_window(void **state)
{
    (void)state;
    test_child_passes(grow_over_windows, NULL);
}

static void first_is_aligned(void *align)
{
    size_t bytes = *(const size_t *)align;
    struct sa_span *s = sa_page_heap_alloc(HEAP, 1, bytes >> SA_PAGE_SHIFT, SA_PAGES_ANY);

    CHILD_CHECK(s != NULL && s->start % bytes == 0);
    CHILD_CHECK(identity_holds());
}

static void test_page_heap_serves_an_aligned_first_request(void **state)
{
    size_t align = 1ul << 30;

    (void)state;
    test_child_passes(first_is_aligned, &align);
}

/* Without memory for a record, a long run is not handed out for a page, nor added to a span that
 * grows. */
static void run_out_of_records(void *unused)
{
    struct sa_page_heap *sampled = &sa_page_heap_sampled;
    struct sa_span *first = sa_page_heap_alloc(sampled, 1, 1, SA_PAGES_ANY), *s = first,
                   *last = NULL;
    struct sa_page_heap_stats before, now;

    (void)unused;
    CHILD_CHECK(first != NULL);
    test_faults_clear();
    test_faults.mmap_after = 0;
    while (sa_arena_alloc(64, 8))
        ;
    while ((s = sa_page_heap_alloc(sampled, 1, 1, SA_PAGES_ANY))) {
        CHILD_CHECK(s->pages <= 2);
        last = s;
    }
    sa_page_heap_stats(sampled, &before);
    CHILD_CHECK(before.released_bytes > MIB / 2);
    CHILD_CHECK(!sa_page_heap_extend(sampled, last ? last : first, 3));
    sa_page_heap_stats(sampled, &now);
    CHILD_CHECK(now.released_bytes == before.released_bytes);
    CHILD_CHECK(now.in_use_bytes == before.in_use_bytes);
    /* What is there can be had as a whole, and in parts when there is memory again. */
    s = sa_page_heap_alloc(sampled, before.released_bytes >> SA_PAGE_SHIFT, 1, SA_PAGES_ANY);
    CHILD_CHECK(s != NULL);
    sa_page_heap_free(sampled, s, true);
    test_faults_clear();
    CHILD_CHECK(sa_page_heap_extend(sampled, last ? last : first, 3));
    s = sa_page_heap_alloc(sampled, 1, 1, SA_PAGES_ANY);
    CHILD_CHECK(s != NULL && s->pages == 1);
}

static void test_page_heap_of_samples_keeps_runs_without_records(void **state)
{
    (void)state;
    test_child_passes(run_out_of_records, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_heap_recovers_when_first_mappings_fail),
        cmocka_unit_test(test_page_heap_survives_mappings_that_fail_now_and_then),
        cmocka_unit_test(test_page_heap_keeps_memory_when_release_is_refused),
        cmocka_unit_test(test_page_heap_has_a_range_back_when_renewal_is_refused),
        cmocka_unit_test(test_page_heap_gives_a_range_up_that_is_not_there),
        cmocka_unit_test(test_page_heap_serves_a_huge_first_request),
        cmocka_unit_test(test_page_heap_serves_an_aligned_first_request),
        cmocka_unit_test(test_page_heap_of_samples_keeps_runs_without_records),
        cmocka_unit_test(test_page_heap_grows_over_the_edge_of_a_window),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("page_heap_faults", tests, NULL, NULL);
}
