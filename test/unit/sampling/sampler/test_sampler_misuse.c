/* SPDX-License-Identifier: Apache-2.0 */
/* Misuse of sampled blocks ends the program with a message, like misuse of other blocks. */
#include "sampling/sampler/sampler.h"

#include "alloc/front/fast_path.h"
#include "alloc/front/mismatch.h"
#include "alloc/front/slow_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/page_heap/page_heap.h"
#include "pagemap/pagemap.h"
#include "sampling/record/live_samples.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"
#include "test/support/threads.h"

#include <stdlib.h>

#define MIB (1ul << 20)

struct misuse {
    size_t size, offset;
};

static char *sampled(size_t size)
{
    char *p = sa_front_alloc(size, 1, false);

    CHILD_CHECK(p && (size >= MIB || sa_page_heap_sampled_address((uintptr_t)p)));
    return p;
}

static void free_slow(void *p)
{
    if (!sa_fast_free_other(p))
        sa_front_free(p);
}

static void free_twice(void *arg)
{
    char *p = sampled(((const struct misuse *)arg)->size);

    sa_fast_free(SA_FOR_C, p, free_slow);
    sa_fast_free(SA_FOR_C, p, free_slow);
}

static void free_twice_sized(void *arg)
{
    size_t size = ((const struct misuse *)arg)->size;
    char *p = sampled(size);

    sa_front_free_sized(p, size, 0);
    sa_front_free_sized(p, size, 0);
}

static void free_twice_after_release(void *arg)
{
    char *p = sampled(((const struct misuse *)arg)->size), *keep = sampled(100);

    sa_front_free(p);
    sa_maintenance_release(PTRDIFF_MAX);
    sa_front_free(p);
    sa_front_free(keep);
}

static void free_twice_with_others_between(void *arg)
{
    size_t size = ((const struct misuse *)arg)->size;
    char *p = sampled(size), *others[20];

    for (int i = 0; i < 20; i++)
        others[i] = sampled(size);
    sa_front_free(p);
    for (int i = 0; i < 20; i++)
        sa_front_free(others[i]);
    sa_front_free(p);
}

static void test_sampler_free_twice(void **state)
{
    static struct misuse cases[] = {{10, 0},   {1000, 0},   {5000, 0},
                                    {8192, 0}, {100000, 0}, {MIB, 0}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        test_child_aborts(free_twice, &cases[i], "double free: 0x");
        test_child_aborts(free_twice_sized, &cases[i], "double free: 0x");
        test_child_aborts(free_twice_after_release, &cases[i], "double free: 0x");
        test_child_aborts(free_twice_with_others_between, &cases[i], "double free: 0x");
    }
}

/* Another thread has begun to free the block: its record is gone, its page is not yet. */
static void free_while_freed(void *p)
{
    sa_pagemap_find((uintptr_t)p)->sample = NULL;
    sa_front_free(p);
}

static void release_while_freed(void *p)
{
    struct sa_span *span = sa_pagemap_find((uintptr_t)p);
    unsigned cls;
    void *object;

    span->sample = NULL;
    sa_sampler_free(span, &cls, &object);
}

static void free_both(int index, void *arg)
{
    (void)index;
    sa_front_free(arg);
}

static void free_by_two(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10000; i++)
        test_threads_run(2, free_both, sampled(100));
}

static void test_sampler_free_in_two_threads(void **state)
{
    uint64_t handle =
        sa_live_start(SALLOC_PROFILE_LIFETIMES); /* takes stacks: the race is longer */
    void *p = sa_front_alloc(100, 1, false);

    (void)state;
    assert_non_null(p);
    assert_true(handle);
    test_child_aborts(free_while_freed, p, "double free: 0x");
    test_child_aborts(release_while_freed, p, "double free: 0x");
    test_child_aborts(free_by_two, NULL, "double free: 0x");
    sa_front_free(p);
}

static void free_inside(void *arg)
{
    const struct misuse *m = arg;

    sa_fast_free(SA_FOR_C, sampled(m->size) + m->offset, free_slow);
}

static void free_sized_inside(void *arg)
{
    const struct misuse *m = arg;

    sa_front_free_sized(sampled(m->size) + m->offset, m->size, 0);
}

static void realloc_inside(void *arg)
{
    const struct misuse *m = arg;

    sa_front_realloc(sampled(m->size) + m->offset, 2 * m->size);
}

static void size_inside(void *arg)
{
    const struct misuse *m = arg;

    sa_mismatch_on = true;
    sa_front_size(sampled(m->size) + m->offset, "malloc_usable_size");
}

/* In the block, behind it on its page, on a later page of it. */
static void test_sampler_free_inside(void **state)
{
    static struct misuse cases[] = {{100, 1},       {100, 16},       {100, 112},     {100, 4096},
                                    {1000, 1008},   {8192, 4096},    {16384, 8192},  {100000, 8192},
                                    {100000, 16},   {100000, 90112}, {262144, 8192}, {MIB, 16},
                                    {262144, 8200}, {MIB, 8192}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        test_child_aborts_with_stacks(free_inside, &cases[i], "invalid free: 0x");
        test_child_aborts_with_stacks(free_inside, &cases[i], "block of ");
        test_child_aborts_with_stacks(free_sized_inside, &cases[i], "invalid free: 0x");
        test_child_aborts_with_stacks(realloc_inside, &cases[i], "invalid realloc: 0x");
        test_child_reports(size_inside, &cases[i], "malloc_usable_size: 0x");
    }
}

struct sized {
    size_t size, align, claimed, claimed_align;
};

static void free_claimed(void *arg)
{
    const struct sized *s = arg;
    char *p = sa_front_alloc(s->size, s->align, false);

    CHILD_CHECK(p != NULL);
    sa_mismatch_on = true;
    sa_front_free_sized(p, s->claimed, s->claimed_align);
}

static void test_sampler_free_with_wrong_size(void **state)
{
    static struct sized wrong[] = {
        {100, 1, 200, 0},  {100, 1, 10, 0},      {100, 1, MIB, 0},      {100, 1, 8192, 0},
        {8192, 1, 100, 0}, {MIB, 1, MIB + 1, 0}, {1000, 1, 1000, 8192}, {100, 4096, 100, 16},
        {100, 1, 0, 0},    {100, 1, 97, 0}};
    static struct sized right[] = {
        {100, 1, 100, 0},      {97, 1, 97, 0},         {100, 1, 112, 0},         {100, 64, 100, 64},
        {MIB, 1, MIB, 0},      {0, 1, 0, 0},           {100, 65536, 100, 65536}, {100, 1, 100, 16},
        {8192, 1, 8192, 8192}, {100, 8192, 100, 8192}, {262144, 1, 262144, 0}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        test_child_reports(free_claimed, &wrong[i], "sized free: 0x");
    for (size_t i = 0; i < TEST_COUNT(right); i++)
        test_child_passes(free_claimed, &right[i]);
}

/* Addresses of the sampled window that no block has had yet, or that are no longer one. */
static void free_given(void *p)
{
    sa_front_free(sampled(100));
    free_slow(p);
}

static void test_sampler_free_in_unused_address_space(void **state)
{
    uintptr_t window = SA_HOME_START + SA_HOME_BYTES;

    (void)state;
    assert_true(sa_page_heap_sampled_address(window));
    assert_true(sa_page_heap_sampled_address(window + SA_HOME_BYTES - 1));
    assert_false(sa_page_heap_sampled_address(window - 1));
    assert_false(sa_page_heap_sampled_address(window + SA_HOME_BYTES));
    test_child_aborts(free_given, (void *)window, "invalid free: 0x");
    test_child_aborts(free_given, (void *)(window + SA_HOME_BYTES - 16), "invalid free: 0x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_free_twice),
        cmocka_unit_test(test_sampler_free_in_two_threads),
        cmocka_unit_test(test_sampler_free_inside),
        cmocka_unit_test(test_sampler_free_with_wrong_size),
        cmocka_unit_test(test_sampler_free_in_unused_address_space),
    };

    test_start_layers();
    sa_sampler_init(1, 1);
    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("sampler_misuse", tests, NULL, NULL);
}
