/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pointers that must not be freed: each ends the program with one line that names the fault. Below
 * the entry points; the same through malloc's own names is tested from outside.
 */
#include "alloc/front/mismatch.h"
#include "alloc/front/slow_path.h"

#include "alloc/front/fast_path.h"
#include "alloc/maintain/maintenance.h"
#include "alloc/os/vm.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"
#include "test/support/start.h"

#include <stdlib.h>
#include <sys/mman.h>

#define MIB (1ul << 20)

/* One misuse: of a block of this size, at this distance from its start. */
struct misuse {
    size_t size, offset;
};

static void free_slowly(void *p)
{
    if (!sa_fast_free_other(p))
        sa_front_free(p);
}

static void free_it(void *p)
{
    sa_fast_free(SA_FOR_C, p, free_slowly);
}

static void free_twice(void *arg)
{
    const struct misuse *m = arg;
    void *p = sa_front_alloc(m->size, 1, false);

    free_it(p);
    free_it(p);
}

/* With other frees in between it is found when the object returns to its span, or before. */
static void free_twice_with_others_between(void *arg)
{
    const struct misuse *m = arg;
    void *p[40];

    for (int i = 0; i < 40; i++)
        p[i] = sa_front_alloc(m->size, 1, false);
    for (int i = 0; i < 40; i++)
        free_it(p[i]);
    free_it(p[20]);
    sa_maintenance_release(PTRDIFF_MAX);
}

static void free_after_release(void *arg)
{
    const struct misuse *m = arg;
    void *p = sa_front_alloc(m->size, 1, false);

    free_it(p);
    sa_maintenance_release(PTRDIFF_MAX);
    free_it(p);
}

static void free_inside(void *arg)
{
    const struct misuse *m = arg;
    char *p = sa_front_alloc(m->size, 1, false);

    free_it(p + m->offset);
}

static void realloc_inside(void *arg)
{
    const struct misuse *m = arg;
    char *p = sa_front_alloc(m->size, 1, false);

    sa_front_realloc(p + m->offset, 2 * m->size);
}

static void size_inside(void *arg)
{
    const struct misuse *m = arg;
    char *p = sa_front_alloc(m->size, 1, false);

    sa_mismatch_on = true;
    sa_front_size(p + m->offset, "malloc_usable_size");
}

static void test_front_free_twice(void **state)
{
    static struct misuse cases[] = {{10, 0}, {1000, 0}, {5000, 0}, {100000, 0}, {MIB, 0}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        test_child_aborts(free_twice, &cases[i], "double free: 0x");
        test_child_aborts(free_after_release, &cases[i], "double free: 0x");
    }
    for (size_t i = 0; i < 3; i++)
        test_child_aborts(free_twice_with_others_between, &cases[i], "double free: 0x");
}

static void test_front_free_inside_a_block(void **state)
{
    static struct misuse cases[] = {{100, 1},     {100, 16},     {1000, 512},    {5000, 16},
                                    {5000, 4096}, {16384, 8192}, {100000, 8192}, {100000, 16},
                                    {MIB, 16},    {MIB, 8192},   {MIB, MIB - 16}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        test_child_aborts(free_inside, &cases[i], "invalid free: 0x");
        test_child_aborts(free_inside, &cases[i], "is inside a block of");
        test_child_aborts(realloc_inside, &cases[i], "invalid realloc: 0x");
        test_child_reports(size_inside, &cases[i], "malloc_usable_size: 0x");
    }
}

static void free_given(void *p)
{
    free_it(p);
}

static void test_front_free_of_what_is_not_ours(void **state)
{
    int local;
    void *theirs = malloc(100);
    void *mapped = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pointers[] = {&local,
                        theirs,
                        mapped,
                        (void *)free_given,
                        (void *)0x1000,
                        (void *)UINTPTR_MAX,
                        (void *)((uintptr_t)1 << 47)};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(pointers); i++)
        test_child_aborts(free_given, pointers[i], "was not allocated by salloc");
    free(theirs);
    munmap(mapped, 1 << 20);
}

/* Addresses of the home window that no block has had yet. */
static void test_front_free_in_unused_address_space(void **state)
{
    (void)state;
    test_child_aborts(free_given, (void *)SA_HOME_START, "invalid free: 0x");
    test_child_aborts(free_given, (void *)(SA_HOME_START + SA_HOME_BYTES - 16), "invalid free: 0x");
}

struct sized {
    size_t size, align, claimed, claimed_align;
};

static void free_claimed(void *arg)
{
    const struct sized *s = arg;

    sa_mismatch_on = true;
    sa_front_free_sized(sa_front_alloc(s->size, s->align, false), s->claimed, s->claimed_align);
}

static void test_front_free_with_wrong_size(void **state)
{
    static struct sized wrong[] = {{100, 1, 200, 0},      {100, 1, 10, 0},
                                   {100, 1, MIB, 0},      {MIB, 1, MIB + 1, 0},
                                   {MIB, 1, 100, 0},      {MIB, 1, SIZE_MAX, 0},
                                   {1000, 1, 1000, 8192}, {2 * MIB, 1, 2 * MIB, 1ul << 30}};
    static struct sized right[] = {{100, 1, 100, 0},
                                   {100, 1, 97, 0},
                                   {100, 64, 100, 64},
                                   {MIB, 1, MIB, 0},
                                   {100, 65536, 100, 65536}};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(wrong); i++)
        test_child_reports(free_claimed, &wrong[i], "sized free: 0x");
    for (size_t i = 0; i < TEST_COUNT(right); i++)
        test_child_passes(free_claimed, &right[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front_free_twice),
        cmocka_unit_test(test_front_free_inside_a_block),
        cmocka_unit_test(test_front_free_of_what_is_not_ours),
        cmocka_unit_test(test_front_free_in_unused_address_space),
        cmocka_unit_test(test_front_free_with_wrong_size),
    };

    test_start(TEST_CACHE_LIMIT);
    return cmocka_run_group_tests_name("front_misuse", tests, NULL, NULL);
}
