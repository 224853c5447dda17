/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that are unloaded: stacks with frames in them keep their samples and become places, other
 * stacks do not change, and the same addresses are a new stack afterwards. Names are bounded.
 */
#include "sampling/stack/unloaded.h"

#include "alloc/base/fmt.h"
#include "alloc/os/vm.h"
#include "sampling/stack/stack.h"
#include "test/support/cmocka.h"

#include <stdio.h>
#include <string.h>

#define START 0x10000000ul
#define END   0x10100000ul
#define OTHER 0x20000000ul
#define MANY  2000

static void assert_named(uintptr_t pc, const char *name)
{
    char text[128];
    struct sa_fmt f;

    sa_fmt_init(&f, text, sizeof(text));
    sa_unloaded_format(&sa_unloaded, pc, &f);
    assert_string_equal(text, name);
}

static struct sa_stack *intern(unsigned number)
{
    uintptr_t pc[3] = {START + 16 * number + 1, OTHER, START + 8};

    return sa_stack_intern(pc, 3);
}

static void test_stacks_become_places(void **state)
{
    static struct sa_stack *before[MANY];
    uintptr_t others[2] = {OTHER + 5, END + 1}, last[2] = {END, OTHER};
    struct sa_stack *other = sa_stack_intern(others, 2), *edge = sa_stack_intern(last, 2);

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        before[i] = intern(i);
    assert_ptr_equal(before[7], intern(7));
    sa_stack_unload(START, END, START - 0x1000, "plugin.so");
    sa_stack_table_validate();
    for (unsigned i = 0; i < MANY; i++) {
        struct sa_stack *now = intern(i);

        assert_ptr_not_equal(now, before[i]);
        assert_int_equal(before[i]->depth, 3);
        assert_true(sa_unloaded_is(before[i]->pc[0]) && sa_unloaded_is(before[i]->pc[2]));
        assert_true(before[i]->pc[1] == OTHER && now->pc[0] == START + 16 * i + 1);
        sa_stack_unref(now);
    }
    assert_named(before[0]->pc[0], "[unloaded plugin.so+0x1000]");
    assert_named(before[0]->pc[2], "[unloaded plugin.so+0x1007]");
    /* A return address follows its call: END is behind the last byte, END + 1 is not. */
    assert_true(other->pc[0] == OTHER + 5 && other->pc[1] == END + 1);
    assert_named(edge->pc[0], "[unloaded plugin.so+0x100fff]");
    /* Again, by the same name. */
    sa_stack_unload(START, END, START - 0x1000, "plugin.so");
    assert_int_equal(sa_unloaded.count, 1);
    sa_stack_table_validate();
}

/* Names that there is no room for are not known; the first ones stay. */
static void test_names_are_bounded(void **state)
{
    char name[200];

    (void)state;
    for (unsigned i = 0; i < 2 * SA_UNLOADED_NAMES; i++) {
        struct sa_stack *s = intern(i);

        snprintf(name, sizeof(name), "%u.%0180u", i, 0);
        sa_stack_unload(START, END, START, name);
        name[SA_UNLOADED_NAME - 1] = '\0';
        if (i == 3)
            assert_non_null(strstr(sa_unloaded.names[4], "3.00"));
        if (i == 2 * SA_UNLOADED_NAMES - 1)
            assert_named(s->pc[2], "[unloaded object+0x7]");
    }
    assert_int_equal(sa_unloaded.count, SA_UNLOADED_NAMES - 1);
    sa_stack_table_validate();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks_become_places),
        cmocka_unit_test(test_names_are_bounded),
    };

    sa_vm_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
