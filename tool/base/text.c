/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows in a buffer; see text.h. No state. */
#include "tool/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool sa_text_put(struct sa_buffer *text, const char *bytes, size_t count)
{
    char *to = sa_buffer_add(text, count);

    if (to && count)
        memcpy(to, bytes, count);
    return to != NULL;
}

bool sa_text_add(struct sa_buffer *text, const char *format, ...)
{
    va_list args;
    char *to;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    to = n >= 0 ? sa_buffer_add(text, (size_t)n + 1) : NULL;
    if (!to)
        return false;
    va_start(args, format);
    vsnprintf(to, (size_t)n + 1, format, args);
    va_end(args);
    text->used--; /* the zero byte */
    return true;
}
