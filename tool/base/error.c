/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of the command; see error.h. No state. An error about memory also tells the budget. */
#include "tool/base/error.h"

#include "tool/base/budget.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

void sa_error_set(struct sa_error *e, enum sa_exit code, const char *format, ...)
{
    va_list args;

    if (e->code)
        return;
    e->code = code;
    va_start(args, format);
    vsnprintf(e->text, sizeof(e->text), format, args);
    va_end(args);
    for (char *c = e->text; *c; c++) /* paths of a target may have any character */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
}

void sa_error_stdout(struct sa_error *e)
{
    int failed = fflush(stdout) != 0 ? errno : ferror(stdout) ? EIO : 0;

    if (!failed)
        return;
    sa_error_set(e, SA_EXIT_FAILED, "stdout: %s", strerror(failed));
    clearerr(stdout);
    __fpurge(stdout);
}

int sa_error_print(const struct sa_error *e)
{
    char budget[160] = "";

    if (e->code == SA_EXIT_FAILED &&
        (strstr(e->text, "no memory") || strstr(e->text, strerror(ENOMEM))))
        sa_budget_describe(budget, sizeof(budget));
    if (e->code)
        fprintf(stderr, "sallocctl: %s%s%s\n", e->text, *budget ? "; sallocctl takes " : "",
                budget);
    return e->code;
}
