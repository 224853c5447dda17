/* SPDX-License-Identifier: Apache-2.0 */
/* Paths made of patterns. */
#include "alloc/output/file.h"

#include "test/support/cmocka.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The placeholders; those unknown and paths too long are errors. */
static void test_file_patterns(void **state)
{
    char buf[SA_FILE_PATH_MAX], expect[200], pattern[5000];
    unsigned n, next;

    (void)state;
    snprintf(expect, sizeof(expect), "a.%d.test_file_pattern.%%.b", (int)getpid());
    assert_int_equal(sa_file_expand("a.%p.%e.%%.b", buf, sizeof(buf)), 0);
    assert_string_equal(buf, expect);
    assert_int_equal(sa_file_expand("%n", buf, sizeof(buf)), 0);
    assert_int_equal(sscanf(buf, "%u", &n), 1);
    assert_int_equal(sa_file_expand("%n", buf, sizeof(buf)), 0);
    assert_int_equal(sscanf(buf, "%u", &next), 1);
    assert_int_equal(next, n + 1);
    assert_int_equal(sa_file_expand("%x", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(sa_file_expand("a%", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(sa_file_expand("", buf, sizeof(buf)), -EINVAL);
    assert_int_equal(sa_file_check_pattern("%p%e%n%%"), 0);
    assert_int_equal(sa_file_check_pattern("%%%"), -EINVAL);
    assert_int_equal(sa_file_expand("%p", buf, 1), -ENAMETOOLONG);
    memset(pattern, 'x', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = '\0';
    assert_int_equal(sa_file_expand(pattern, buf, sizeof(buf)), -ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_patterns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
