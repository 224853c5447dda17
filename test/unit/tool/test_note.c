/* SPDX-License-Identifier: Apache-2.0 */
/* Notes about results: each once, of child processes, too, in lines that a terminal can show. */
#include "tool/base/note.h"

#include "tool/base/child.h"

#include "test/support/cmocka.h"

#include <string.h>

static void test_note_once(void **state)
{
    (void)state;
    sa_note("of no command");
    assert_string_equal(sa_notes(), "");
    sa_notes_begin();
    sa_note("%s: lost", "/a/b");
    sa_note("%s: lost", "/b"); /* the end of the first, */
    sa_note("%s", "/a");       /* and its beginning */
    sa_note("/a/b: %s", "lost");
    assert_string_equal(sa_notes(), "sallocctl: /a/b: lost\nsallocctl: /b: lost\nsallocctl: /a\n");
    sa_notes_begin();
    assert_string_equal(sa_notes(), "");
}

static void test_note_text(void **state)
{
    char text[2048];

    (void)state;
    sa_notes_begin();
    sa_note("a\033[2J\nb\177");
    assert_string_equal(sa_notes(), "sallocctl: a?[2J?b?\n");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (char c = 'a'; c <= 'z'; c++) { /* more than there is room for */
        text[0] = c;
        sa_note("%s", text);
    }
    assert_true(strlen(sa_notes()) > 10000 && strlen(sa_notes()) < 16384);
    assert_int_equal(sa_notes()[strlen(sa_notes()) - 1], '\n');
}

static bool note(void *arg, int fd)
{
    (void)fd;
    sa_note("child %s", (const char *)arg);
    return false; /* what it found counts all the same */
}

static void test_note_child(void **state)
{
    struct sa_child_task task = {.run = note, .arg = "one", .seconds = 10, .answer_max = 1};
    struct sa_buffer answer = {NULL, 0, 0};
    int number;

    (void)state;
    sa_notes_begin();
    sa_child_run(&task, &answer, &number);
    sa_note("child one");
    sa_note("parent");
    assert_string_equal(sa_notes(), "sallocctl: child one\nsallocctl: parent\n");
    sa_notes_print();
    assert_string_equal(sa_notes(), "");
    sa_buffer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_note_once),
        cmocka_unit_test(test_note_text),
        cmocka_unit_test(test_note_child),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
