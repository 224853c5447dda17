/* SPDX-License-Identifier: Apache-2.0 */
/* Text from elsewhere: what is UTF-8 stays, what is not is replaced byte by byte. */
#include "alloc/base/utf8.h"

#include "test/support/cmocka.h"

#include <string.h>

static void check(const char *text, const char *clean)
{
    char buf[64];

    assert_int_equal(strlen(text), strlen(clean));
    strcpy(buf, text);
    sa_utf8_clean(buf, strlen(buf));
    assert_string_equal(buf, clean);
}

static void test_utf8_clean(void **state)
{
    (void)state;
    check("", "");
    check("main; [x] ~", "main; [x] ~");
    check("a\nb\tc\x7f", "a_b_c_");
    check("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f");
    check("\xe2\x82\xac \xf0\x9f\x90\x98", "\xe2\x82\xac \xf0\x9f\x90\x98");
    check("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"); /* the last one */
    check("\xf4\x90\x80\x80", "????");
    check("\xc3", "?"); /* cut short */
    check("\xe2\x82x", "??x");
    check("\x80\xff", "??");
    check("\xc0\xaf", "??");         /* longer than needed */
    check("\xe0\x80\xaf", "???");    /* the same */
    check("\xed\xa0\x80!", "??\?!"); /* half of a pair */
    check("\xf0\x80\x80\x80", "????");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_utf8_clean)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
