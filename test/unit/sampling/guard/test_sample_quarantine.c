/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sample quarantine, through the front end, with every sample guarded: which spans enter, how
 * many, which of them are backed, and refusals of the kernel. test_misuse tests the reports.
 */
#include "alloc/os/vm.h"
#include "alloc/page_heap/page_heap.h"
#include "test/support/guards.h"

#include "alloc/front/large.h"
#include "test/support/faults.h"
#include "test/support/random.h"
#include "test/support/start.h"

#include <string.h>

bool __real_sa_vm_protect(void *p, size_t bytes, bool accessible);
bool __wrap_sa_vm_protect(void *p, size_t bytes, bool accessible);
bool __real_sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages);
bool __wrap_sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages);

static bool refuse_access; /* what the kernel does not do */
static bool refuse_extend; /* what the page heap does not do */

bool __wrap_sa_vm_protect(void *p, size_t bytes, bool access)
{
    return !(access && refuse_access) && __real_sa_vm_protect(p, bytes, access);
}

bool __wrap_sa_page_heap_extend(struct sa_page_heap *h, struct sa_span *s, size_t pages)
{
    return !refuse_extend && __real_sa_page_heap_extend(h, s, pages);
}

/* Takes all slots of large blocks; NULL-terminated. */
static void take_large_slots(char **p)
{
    size_t n = 0;

    do
        p[n] = sa_front_alloc(SA_PAGE_BYTES + 1, 1, false);
    while (is_guarded(p[n++]));
    sa_front_free(p[--n]);
    sa_sample_quarantine_flush();
    p[n] = NULL;
}

static void free_large_slots(char **p)
{
    while (*p)
        sa_front_free(*p++);
}

/* Samples without a slot enter the quarantine when they are freed. Their pages are then
 * inaccessible, and mostly unbacked. */
static void test_quarantine_makes_pages_inaccessible(void **state)
{
    static const size_t sizes[] = {8193, 20000, 32768, 100000, 262144, 262145, MIB, 16 * MIB};
    struct sa_sample_quarantine_stats s;
    char *slots[GUARD_SLOTS];
    size_t bytes = 0;

    (void)state;
    take_large_slots(slots);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        unsigned char *p = sa_front_alloc(sizes[i], 1, false);
        size_t span = sa_align_up(sa_front_size(p, "test"), SA_PAGE_BYTES);
        uint64_t ever = kept().ever;

        assert_true(p && !is_guarded(p));
        fill(p, sizes[i], 1);
        sa_front_free(p);
        assert_int_equal(kept().ever, ever + 1);
        assert_false(accessible((uintptr_t)p));
        assert_false(accessible((uintptr_t)p + sizes[i] - 1));
        if (span > 32768)
            assert_int_equal(sa_vm_resident(p, sizes[i]), 0);
        bytes = bytes + span > GUARD_KEPT ? kept().bytes : bytes + span;
        assert_int_equal(kept().bytes, bytes);
        assert_true(bytes <= GUARD_KEPT);
    }
    s = kept();
    assert_true(s.spans >= 1 && s.empty_bytes <= s.bytes);
    sa_sample_quarantine_flush();
    assert_int_equal(kept().spans, 0);
    free_large_slots(slots);
    assert_no_guards_left();
}

/* Spans of one page are released when many are backed. A later block on such a span is like any
 * other. */
static void test_quarantine_short_pages_hold_little(void **state)
{
    static char *small[GUARD_SLOTS];
    static unsigned char *p[2 * SA_SAMPLE_QUARANTINE_MAX];
    size_t span = sa_max(SA_PAGE_BYTES, sa_vm.page_bytes), held = 0, n = 0;

    (void)state;
    do
        small[n] = sa_front_alloc(100, 1, false);
    while (is_guarded(small[n++]) && n < GUARD_SLOTS);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < TEST_COUNT(p); i++) {
            p[i] = sa_front_alloc(1000, 1, i % 2);
            assert_true(p[i] && !is_guarded(p[i]) && (i % 2 == 0 || is_zero(p[i], 1000)));
            memset(p[i], 1, 1000);
        }
        for (size_t i = 0; i < TEST_COUNT(p); i++)
            sa_front_free(p[i]);
        assert_int_equal(kept().spans, SA_SAMPLE_QUARANTINE_MAX);
    }
    for (size_t i = 0; i < TEST_COUNT(p); i++)
        if (!accessible((uintptr_t)p[i]))
            held += sa_vm_resident((void *)page_of(p[i]), span);
    assert_true(held <= 9 * sa_vm.page_bytes);
    assert_int_equal(kept().empty_bytes, kept().bytes - held / sa_vm.page_bytes * span);
    while (n)
        sa_front_free(small[--n]);
    assert_no_guards_left();
}

/* A span above the limit does not enter. Bytes and spans stay within their bounds, and reused
 * spans are accessible. */
static void test_quarantine_is_bounded(void **state)
{
    struct test_random r = {0x771};
    uint64_t ever;
    char *p = sa_front_alloc(GUARD_KEPT + 1, 1, false), *slots[GUARD_SLOTS];

    (void)state;
    take_large_slots(slots);
    ever = kept().ever;
    sa_front_free(p);
    assert_int_equal(kept().ever, ever);
    for (int i = 0; i < 3000; i++) {
        size_t size = 8193 + test_random_below(&r, i % 10 ? 100000 : 3 * MIB);
        unsigned char *q = sa_front_alloc(size, 1, i % 2);

        assert_true(q && (i % 2 == 0 || is_zero(q, size)));
        memset(q, 1, size);
        sa_front_free(q);
        assert_true(kept().bytes <= GUARD_KEPT && kept().spans <= SA_SAMPLE_QUARANTINE_MAX);
        assert_true(kept().sampled_bytes <= kept().bytes && kept().sampled_spans <= kept().spans);
    }
    free_large_slots(slots);
    assert_no_guards_left();
}

/* The old place of a block whose pages were moved enters the quarantine, too. The page heap refuses
 * to lengthen the span, because whether the pages behind a block are free is its own choice: it
 * depends on the hugepages that earlier tests have left, and on times that the page heap has
 * measured. */
static void test_quarantine_takes_moved_pages(void **state)
{
    unsigned char *p = sa_front_alloc(2 * MIB, 1, false), *q;

    (void)state;
    fill(p, 2 * MIB, 9);
    refuse_extend = true;
    q = sa_front_realloc(p, 5 * MIB);
    refuse_extend = false;
    assert_true(q && q != p);
    assert_filled(q, 2 * MIB, 9);
    assert_false(accessible((uintptr_t)p));
    sa_front_free(q);
    assert_no_guards_left();
}

/* Pages that the kernel does not make accessible again are put aside until it does. */
static void test_quarantine_gives_back_what_stays_inaccessible(void **state)
{
    static const size_t sizes[] = {10000, 100000, 300000, 3 * MIB};
    char *p[TEST_COUNT(sizes)], *slots[GUARD_SLOTS];

    (void)state;
    take_large_slots(slots);
    for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
        p[i] = sa_front_alloc(sizes[i], 1, false);
        memset(p[i], 1, sizes[i]);
        sa_front_free(p[i]);
        assert_false(accessible((uintptr_t)p[i]));
    }
    refuse_access = true;
    sa_sample_quarantine_flush();
    sa_sample_quarantine_flush();
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        assert_false(accessible((uintptr_t)p[i]));
    refuse_access = false;
    sa_sample_quarantine_flush();
    for (size_t i = 0; i < TEST_COUNT(sizes); i++)
        assert_true(accessible((uintptr_t)p[i]));
    free_large_slots(slots);
    assert_no_guards_left();
}

/* A span that was partly inaccessible is unbacked and wholly inaccessible while it is put aside,
 * because accessible pages count against the limit. A retry covers all such spans, or ends with
 * the first refusal. */
static void test_quarantine_returns_what_is_partly_inaccessible(void **state)
{
    enum { N = 3 };
    struct sa_span *spans[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        spans[i] = sa_page_heap_alloc(&sa_page_heap_ordinary, 40, 1, SA_PAGES_ANY);
        assert_non_null(spans[i]);
        spans[i]->moved = 1;
        memset((void *)spans[i]->start, 1, sa_span_bytes(spans[i]));
        assert_true(
            sa_vm_protect((void *)(sa_span_end(spans[i]) - SA_PAGE_BYTES), SA_PAGE_BYTES, false));
    }
    refuse_access = true;
    for (int i = 0; i < N; i++)
        sa_sample_quarantine_return(spans[i], false);
    assert_false(sa_sample_quarantine_retry(true));
    assert_false(sa_sample_quarantine_retry(false));
    for (int i = 0; i < N; i++) {
        assert_int_equal(spans[i]->state, SA_SPAN_QUARANTINED);
        assert_false(accessible(spans[i]->start));
        assert_int_equal(sa_vm_resident((void *)spans[i]->start, sa_span_bytes(spans[i])), 0);
    }
    refuse_access = false;
    assert_true(sa_sample_quarantine_retry(true));
    for (int i = 0; i < N; i++)
        assert_true(accessible(spans[i]->start));
    assert_true(sa_sample_quarantine_retry(true)); /* nothing is left */
}

/* Pages that are locked into memory cannot be released, and do not enter. */
static void test_quarantine_survives_locked_memory(void **state)
{
    unsigned char *p = sa_front_alloc(300000, 1, false);

    (void)state;
    memset(p, 1, 300000);
    test_faults.madvise_after = 0;
    sa_front_free(p);
    test_faults_clear();
    assert_int_equal(kept().spans, 0);
    assert_no_guards_left();
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quarantine_makes_pages_inaccessible),
        cmocka_unit_test(test_quarantine_short_pages_hold_little),
        cmocka_unit_test(test_quarantine_is_bounded),
        cmocka_unit_test(test_quarantine_takes_moved_pages),
        cmocka_unit_test(test_quarantine_gives_back_what_stays_inaccessible),
        cmocka_unit_test(test_quarantine_returns_what_is_partly_inaccessible),
        cmocka_unit_test(test_quarantine_survives_locked_memory),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    guard_all();
    sa_large_init(0); /* no guards of large blocks, whose pages would be counted */
    return cmocka_run_group_tests_name("kept", tests, NULL, NULL);
}
