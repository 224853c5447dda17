/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of the line: one line on stderr in one write, then SIGABRT; whole even where the detail
 * is too long for the buffer.
 */
#include "alloc/base/fatal.h"

#include "alloc/os/thread.h"
#include "alloc/os/vm.h"
#include "sampling/guard/misuse.h"
#include "sampling/guard/reporting.h"
#include "test/support/child.h"
#include "test/support/cmocka.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void die(void *unused)
{
    (void)unused;
    sa_fatal("double free", (void *)0x1234, "block %u of %zu, %s", 7u, (size_t)99, "why");
}

static void die_at_length(void *unused)
{
    static char text[1000];

    (void)unused;
    memset(text, 'x', sizeof(text) - 1);
    sa_fatal("invalid free", NULL, "%s", text);
}

static void die_with_stacks(void *unused)
{
    (void)unused;
    sa_vm_init();
    sa_fatal_report = sa_misuse_fatal;
    sa_thread.caller = __builtin_dwarf_cfa();
    die(NULL);
}

static void die_confined(void *unused)
{
    sa_reporting_confine();
    die_with_stacks(unused);
}

static void check_fails(void *unused)
{
    (void)unused;
    SA_CHECK(1 + 1 == 2);
    SA_CHECK(1 + 1 == 3);
}

static void warn(void *unused)
{
    (void)unused;
    sa_warn("option %s is %d", "x", -1);
}

static void warn_of_control_characters(void *unused)
{
    (void)unused;
    sa_warn("cannot write %s", "/tmp/a\n\x1b[2J\x7f\xc3\xa4");
}

static void warn_without_stderr(void *unused)
{
    (void)unused;
    close(STDERR_FILENO);
    sa_warn("nobody reads this");
}

static void test_fatal_writes_one_line_and_aborts(void **state)
{
    struct test_child child = test_child_run(die, NULL);

    (void)state;
    assert_int_equal(child.signal, SIGABRT);
    assert_string_equal(child.text, "salloc: double free: 0x1234 block 7 of 99, why\n");
}

static void test_fatal_is_followed_by_the_stack_of_the_caller(void **state)
{
    static const char line[] =
        "salloc: double free: 0x1234 block 7 of 99, why\nsalloc:   in process ";
    struct test_child child = test_child_run(die_with_stacks, NULL);

    (void)state;
    assert_int_equal(child.signal, SIGABRT);
    assert_memory_equal(child.text, line, sizeof(line) - 1);
    assert_non_null(strstr(child.text, "(test_fatal)\nsalloc:   freed by thread "));
    assert_non_null(strstr(child.text, " main\n"));
}

/* Where a filter may kill for system calls: no thread and no names, which take files. */
static void test_fatal_tells_places_where_it_is_confined(void **state)
{
    struct test_child child = test_child_run(die_confined, NULL);

    (void)state;
    assert_int_equal(child.signal, SIGABRT);
    assert_non_null(strstr(child.text, "\nsalloc:   in program "));
    assert_non_null(strstr(child.text, "\nsalloc:   freed:\nsalloc:     #0 "));
    assert_non_null(strstr(child.text, "test_fatal+0x"));
    assert_null(strstr(child.text, " main\n"));
    assert_null(strstr(child.text, "thread"));
}

static void test_fatal_keeps_the_newline_of_a_long_message(void **state)
{
    struct test_child child = test_child_run(die_at_length, NULL);

    (void)state;
    assert_int_equal(child.signal, SIGABRT);
    assert_memory_equal(child.text, "salloc: invalid free: 0x0 xxx", 29);
    assert_in_range(strlen(child.text), 300, 400);
    assert_string_equal(strchr(child.text, '\n'), "\n");
}

static void test_fatal_check_names_the_condition(void **state)
{
    (void)state;
    test_child_aborts(check_fails, NULL, "internal error: ");
    test_child_aborts(check_fails, NULL, "test_fatal.c:");
    test_child_aborts(check_fails, NULL, ": 1 + 1 == 3\n");
}

static void test_fatal_warning_does_not_end_the_program(void **state)
{
    struct test_child child = test_child_run(warn, NULL);

    (void)state;
    assert_int_equal(child.exit_code, 0);
    assert_string_equal(child.text, "salloc: option x is -1\n");
    test_child_passes(warn_without_stderr, NULL);
}

/* What a file is called may come from anybody; other letters than ASCII's are left as they are. */
static void test_fatal_leaves_out_control_characters(void **state)
{
    struct test_child child = test_child_run(warn_of_control_characters, NULL);

    (void)state;
    assert_string_equal(child.text, "salloc: cannot write /tmp/a??[2J?\xc3\xa4\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fatal_writes_one_line_and_aborts),
        cmocka_unit_test(test_fatal_is_followed_by_the_stack_of_the_caller),
        cmocka_unit_test(test_fatal_tells_places_where_it_is_confined),
        cmocka_unit_test(test_fatal_keeps_the_newline_of_a_long_message),
        cmocka_unit_test(test_fatal_check_names_the_condition),
        cmocka_unit_test(test_fatal_warning_does_not_end_the_program),
        cmocka_unit_test(test_fatal_leaves_out_control_characters),
    };

    return cmocka_run_group_tests_name("fatal", tests, NULL, NULL);
}
