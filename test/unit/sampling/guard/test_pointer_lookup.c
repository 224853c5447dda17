/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups in the inaccessible pages of large blocks: which of two neighbours a bad pointer belongs
 * to, and which addresses are none of the lookup's business. The lookup reads spans and does not
 * touch their memory, so spans are placed where a test wants them.
 */
#include "sampling/guard/pointer_lookup.h"

#include "alloc/base/hardening.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/record/recording.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <string.h>

#define PAGE  SA_PAGE_BYTES
#define START ((uintptr_t)0x456 << SA_HOME_SHIFT)

static struct sa_span a, b; /* neighbours: b begins where a ends */
static struct sa_sample sample;

static void set_span(struct sa_span *s, uintptr_t start, uint32_t pages, size_t requested)
{
    *s = (struct sa_span){.start = start,
                          .pages = pages,
                          .state = SA_SPAN_LARGE,
                          .heap = SA_HEAP_ORDINARY,
                          .requested = requested,
                          .guard = 1};
    assert_true(sa_pagemap_grow(start, sa_span_bytes(s)));
    sa_pagemap_set_ends(s);
}

/* Block a ends 100 bytes into its third page of four. Its fourth page is inaccessible. Between the
 * blocks are 2 PAGE - 100 bytes, of which TIE is the middle. */
#define A_BYTES (2 * PAGE + 100)
#define B       (START + 4 * PAGE)
#define B_BYTES 1000
#define TIE     (START + 3 * PAGE + 50)

static int set_up(void **state)
{
    (void)state;
    memset(&sa_hardening, 0, sizeof(sa_hardening));
    sa_large_guards = 2;
    set_span(&a, START, 4, A_BYTES);
    set_span(&b, B, 2, B_BYTES);
    sample = (struct sa_sample){.stack = &sa_stack_unknown, .time_ns = 123456789, .tid = 4321};
    return 0;
}

static void assert_no_lookup(uintptr_t address)
{
    struct sa_lookup found;

    assert_false(sa_lookup_large(address, &found));
}

/* Looks up an address, in a result that is full of other bits. */
static struct sa_lookup look_up(uintptr_t address)
{
    struct sa_lookup found;

    memset(&found, 0xa5, sizeof(found));
    assert_true(sa_lookup_large(address, &found));
    return found;
}

/* Without a sample the history is the place alone. */
static void assert_block(struct sa_lookup found, enum sa_lookup_state state, bool between,
                         const struct sa_span *span)
{
    assert_int_equal(found.state, state);
    assert_int_equal(found.between, between);
    assert_int_equal(found.history.start, span->start);
    assert_int_equal(found.history.requested, span->requested);
    assert_null(found.history.allocated.stack);
    assert_null(found.history.freed.stack);
}

static void test_lookup_finds_inaccessible_pages_only(void **state)
{
    (void)state;
    assert_no_lookup(START - 1);
    assert_no_lookup(START);
    assert_no_lookup(START + A_BYTES);
    assert_no_lookup(START + 3 * PAGE - 1);
    assert_block(look_up(START + 3 * PAGE), SA_LOOKUP_LIVE, true, &a);
    assert_no_lookup(B);
    assert_no_lookup(B + PAGE - 1);
    assert_block(look_up(B + PAGE), SA_LOOKUP_LIVE, true, &b);
    assert_block(look_up(B + 2 * PAGE - 1), SA_LOOKUP_LIVE, true, &b);
    assert_no_lookup(B + 2 * PAGE);
    assert_no_lookup(UINTPTR_MAX);
    a.guard = 0;
    assert_no_lookup(START + 4 * PAGE - 1);
}

/* Each of the three kinds of such pages is enough. */
static void test_lookup_is_off_without_such_pages(void **state)
{
    (void)state;
    sa_large_guards = 0;
    assert_no_lookup(START + 3 * PAGE);
    sa_hardening.guards = true;
    look_up(START + 3 * PAGE);
    sa_hardening.guards = false;
    sa_hardening.quarantine_bytes = 1;
    look_up(START + 3 * PAGE);
    sa_hardening.quarantine_bytes = 0;
    sa_large_guards = 1;
    look_up(START + 3 * PAGE);
}

/* Up to the middle the address belongs to the block before it. A next span that is not a block
 * takes no address. */
static void test_lookup_names_the_nearer_block(void **state)
{
    (void)state;
    assert_block(look_up(TIE - 1), SA_LOOKUP_LIVE, true, &a);
    assert_block(look_up(TIE), SA_LOOKUP_LIVE, true, &b);
    assert_block(look_up(B - 1), SA_LOOKUP_LIVE, true, &b);
    for (int other = SA_SPAN_UNUSED; other <= SA_SPAN_QUARANTINED; other++) {
        b.state = (uint8_t)other;
        assert_block(look_up(B - 1), SA_LOOKUP_LIVE, true, other == SA_SPAN_LARGE ? &b : &a);
    }
}

/* Spans of other heaps and of other states are not looked at, nor one whose word `requested` has
 * another use. */
static void test_lookup_passes_other_spans(void **state)
{
    (void)state;
    for (int heap = SA_HEAP_ORDINARY; heap <= SA_HEAP_GUARDED; heap++) {
        a.heap = (uint8_t)heap;
        if (heap == SA_HEAP_ORDINARY)
            look_up(B - 1);
        else
            assert_no_lookup(B - 1);
    }
    a.heap = SA_HEAP_ORDINARY;
    for (int other = SA_SPAN_UNUSED; other <= SA_SPAN_GUARDED; other++) {
        a.state = (uint8_t)other;
        if (other != SA_SPAN_LARGE)
            assert_no_lookup(B - 1);
    }
    a.state = SA_SPAN_QUARANTINED;
    a.aside = &b;
    assert_no_lookup(START);
    assert_no_lookup(B - 1);
    a.aside = NULL; /* the last one of the list */
    assert_no_lookup(START);
    assert_no_lookup(B - 1);
}

/* All pages of a freed block are inaccessible. Behind its end, the nearer block counts, but only if
 * that is in use. */
static void test_lookup_of_a_freed_block(void **state)
{
    (void)state;
    a.state = SA_SPAN_QUARANTINED;
    a.guard = 0;
    assert_block(look_up(START), SA_LOOKUP_FREED, false, &a);
    assert_block(look_up(START + A_BYTES - 1), SA_LOOKUP_FREED, false, &a);
    assert_block(look_up(TIE - 1), SA_LOOKUP_FREED, false, &a);
    assert_block(look_up(TIE), SA_LOOKUP_LIVE, true, &b);
    assert_block(look_up(B - 1), SA_LOOKUP_LIVE, true, &b);
    b.state = SA_SPAN_QUARANTINED;
    assert_block(look_up(B - 1), SA_LOOKUP_FREED, false, &a);
    /* The last bytes of a block are its own, even if another begins right behind. */
    b.state = SA_SPAN_LARGE;
    a.requested = 4 * PAGE;
    assert_block(look_up(B - 1), SA_LOOKUP_FREED, false, &a);
}

static void assert_kept(uintptr_t address, struct sa_lookup found)
{
    struct sa_lookup before = found;

    sa_lookup_nearer(address, &found);
    assert_memory_equal(&found, &before, sizeof(found));
}

/* The result of another lookup is corrected only if it is of the freed block on that span. */
static void test_lookup_nearer_corrects_its_own_block_only(void **state)
{
    struct sa_lookup found, freed;

    (void)state;
    memset(&freed, 0, sizeof(freed));
    freed.state = SA_LOOKUP_FREED;
    freed.history.start = START;
    freed.history.requested = A_BYTES;
    a.state = SA_SPAN_QUARANTINED;
    found = freed;
    sa_lookup_nearer(B - 1, &found);
    assert_block(found, SA_LOOKUP_LIVE, true, &b);
    assert_kept(START + A_BYTES - 1, freed);
    assert_kept(TIE - 1, freed);
    assert_kept(START - 1, freed); /* no span */
    found = freed;
    found.state = SA_LOOKUP_LIVE;
    assert_kept(B - 1, found);
    found = freed;
    found.history.start += 16; /* an earlier block, on other pages */
    assert_kept(B - 1, found);
    a.heap = SA_HEAP_SAMPLED;
    assert_kept(B - 1, freed);
}

static void assert_sampled(struct sa_lookup found, const struct sa_span *span)
{
    assert_int_equal(found.state, SA_LOOKUP_LIVE);
    assert_true(found.between);
    assert_int_equal(found.history.start, span->start);
    assert_int_equal(found.history.requested, span->requested);
    assert_ptr_equal(found.history.allocated.stack, &sa_stack_unknown);
    assert_int_equal(found.history.allocated.time_ns, 123456789);
    assert_int_equal(found.history.allocated.thread, 4321);
    assert_null(found.history.freed.stack);
}

/* Of a sampled block in use it is known who allocated it. */
static void test_lookup_of_a_sampled_block(void **state)
{
    (void)state;
    b.sample = &sample;
    assert_block(look_up(TIE - 1), SA_LOOKUP_LIVE, true, &a);
    assert_sampled(look_up(TIE), &b);
    a.state = SA_SPAN_QUARANTINED;
    assert_sampled(look_up(TIE), &b);
    a.state = SA_SPAN_LARGE;
    a.sample = &sample;
    b.sample = NULL;
    assert_sampled(look_up(TIE - 1), &a);
    assert_block(look_up(TIE), SA_LOOKUP_LIVE, true, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_lookup_finds_inaccessible_pages_only, set_up),
        cmocka_unit_test_setup(test_lookup_is_off_without_such_pages, set_up),
        cmocka_unit_test_setup(test_lookup_names_the_nearer_block, set_up),
        cmocka_unit_test_setup(test_lookup_passes_other_spans, set_up),
        cmocka_unit_test_setup(test_lookup_of_a_freed_block, set_up),
        cmocka_unit_test_setup(test_lookup_nearer_corrects_its_own_block_only, set_up),
        cmocka_unit_test_setup(test_lookup_of_a_sampled_block, set_up),
    };

    test_start_layers();
    return cmocka_run_group_tests_name("pointer_lookup", tests, NULL, NULL);
}
