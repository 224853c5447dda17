/* SPDX-License-Identifier: Apache-2.0 */
/* Options of tables; see report_options.h. */
#include "tool/command/report_options.h"

#include "tool/report/report_keys.h"

#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ROWS     10
#define ROWS_MAX 1000000

struct sa_report_options sa_report_options_default(void)
{
    struct winsize size;
    bool terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

    return (struct sa_report_options){.rows = ROWS, .width = terminal ? size.ws_col : 0};
}

int sa_report_option(const struct sa_command *command, int letter, const char *argument,
                     struct sa_report_options *ret)
{
    unsigned long rows;
    char *end;

    switch (letter) {
    case 'm':
        ret->metric = argument;
        return -1;
    case 'b':
        ret->by = sa_report_by(argument);
        if (ret->by)
            return -1;
        return sa_command_misused(command, "the tables are function, line, library, size, thread, "
                                           "lifetime, stack");
    case 'n':
        rows = strtoul(argument, &end, 10);
        if (*end || end == argument || rows > ROWS_MAX)
            return sa_command_misused(command, "--rows needs a number; 0: all");
        ret->rows = (unsigned)rows;
        return -1;
    default:
        return sa_command_misused(command, "there is no such option");
    }
}
