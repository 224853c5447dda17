/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the command; see error.h. No state. */
#include "tool/base/error.h"

#include <stdarg.h>
#include <stdio.h>

void sa_error_set(struct sa_error *e, enum sa_exit code, const char *format, ...)
{
    va_list args;

    if (e->code)
        return;
    e->code = code;
    va_start(args, format);
    vsnprintf(e->text, sizeof(e->text), format, args);
    va_end(args);
}

int sa_error_print(const struct sa_error *e)
{
    if (e->code)
        fprintf(stderr, "sallocctl: %s\n", e->text);
    return e->code;
}
