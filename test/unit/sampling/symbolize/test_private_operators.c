/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which objects have operators new and delete of their own: not the program, which holds the
 * library, nor libc; an address of no object counts as theirs. test/outside/mismatch/private.cc has
 * objects that do.
 */
#include "sampling/symbolize/private_operators.h"

#include "sampling/symbolize/mappings.h"
#include "test/support/cmocka.h"

#include <link.h>
#include <stdlib.h>

static void test_program(void **state)
{
    (void)state;
    assert_false(sa_private_operators_at((uintptr_t)test_program + 1));
    assert_false(sa_private_operators_at((uintptr_t)sa_private_operators_at + 1));
}

/* The second answer is the one that is remembered. */
static void test_libc(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_false(sa_private_operators_at((uintptr_t)getenv + 1));
}

static void test_no_object(void **state)
{
    int local;

    (void)state;
    assert_true(sa_private_operators_at((uintptr_t)&local));
    assert_true(sa_private_operators_at(1));
}

struct seen {
    unsigned objects;
    bool program, libc;
};

static int see(struct dl_phdr_info *info, size_t bytes, void *arg)
{
    struct dl_phdr_info of_program, of_libc;
    struct seen *seen = arg;

    (void)bytes;
    assert_true(sa_mappings_info((uintptr_t)see, &of_program));
    assert_true(sa_mappings_info((uintptr_t)getenv, &of_libc));
    seen->program |= info->dlpi_phdr == of_program.dlpi_phdr;
    seen->libc |= info->dlpi_addr == of_libc.dlpi_addr && info->dlpi_phnum == of_libc.dlpi_phnum;
    return ++seen->objects == 1000;
}

static void test_each(void **state)
{
    struct seen seen = {0};

    (void)state;
    assert_int_equal(sa_mappings_each(see, &seen), 0);
    assert_true(seen.program && seen.libc && seen.objects >= 2);
    assert_true(sa_private_operators_anywhere() == sa_private_operators_anywhere());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program),
        cmocka_unit_test(test_libc),
        cmocka_unit_test(test_no_object),
        cmocka_unit_test(test_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
