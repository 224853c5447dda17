/* SPDX-License-Identifier: Apache-2.0 */
/* Options of tables; see report_options.h. */
#include "tool/command/report_options.h"

#include "tool/base/units.h"
#include "tool/report/report_keys.h"
#include "tool/symbol/debuginfod.h"

#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS     10
#define ROWS_MAX 1000000

#define DEBUGINFOD_MAX 86400 /* seconds */

struct sa_report_options sa_report_options_default(void)
{
    struct winsize size;
    bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

    return (struct sa_report_options){.rows = ROWS, .width = terminal ? size.ws_col : 0};
}

const char *sa_take_tables(const char *argument, void *field)
{
    unsigned by = sa_report_by(argument);

    if (!by)
        return "the tables are function, line, library, size, thread, lifetime, stack";
    *(unsigned *)field = by;
    return NULL;
}

const char *sa_take_rows(const char *argument, void *field)
{
    uint64_t rows;

    if (!sa_units_number(argument, ROWS_MAX, &rows))
        return "it needs a number; 0: all";
    *(unsigned *)field = (unsigned)rows;
    return NULL;
}

const char *sa_take_debuginfod(const char *argument, void *field)
{
    double seconds;

    (void)field;
    if (!sa_units_time(argument, &seconds) || seconds > DEBUGINFOD_MAX)
        return "it needs " SA_UNITS_TIME ", at most a day";
    sa_debuginfod_allow(seconds);
    return NULL;
}
