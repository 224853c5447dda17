/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of a page; see page_writer.h. */
#include "tool/page/page_writer.h"

#include "tool/base/json.h"
#include "tool/base/text.h"

#include <math.h>
#include <string.h>

void sa_page_put(struct sa_page_writer *w, const char *text)
{
    w->fine = w->fine && sa_text_put(w->out, text, strlen(text));
}

void sa_page_put_number(struct sa_page_writer *w, long long number)
{
    char digits[24], *at = digits + sizeof(digits);
    unsigned long long rest =
        number < 0 ? 0 - (unsigned long long)number : (unsigned long long)number;

    do
        *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0)
        *--at = '-';
    w->fine = w->fine && sa_text_put(w->out, at, (size_t)(digits + sizeof(digits) - at));
}

void sa_page_put_double(struct sa_page_writer *w, double number)
{
    if (isfinite(number))
        w->fine = w->fine && sa_text_add(w->out, "%.17g", number);
    else
        sa_page_put(w, "null");
}

void sa_page_put_string(struct sa_page_writer *w, const char *text, size_t cap)
{
    w->fine = w->fine && sa_json_put_string(w->out, text, cap);
}

void sa_page_put_key(struct sa_page_writer *w, const char *key)
{
    w->fine = w->fine && sa_text_add(w->out, ",\n\"%s\":", key);
}

void sa_page_next(struct sa_page_writer *w, size_t i)
{
    if (i)
        sa_page_put(w, ",");
}
