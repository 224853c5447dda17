/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands that print tables of profiles. */
#ifndef SA_TOOL_COMMAND_REPORT_OPTIONS_H
#define SA_TOOL_COMMAND_REPORT_OPTIONS_H

#include "tool/command/command.h"
#include "tool/report/file_report.h"

/* For getopt_long, with the entries of SA_REPORT_OPTIONS in the list of long names. */
#define SA_REPORT_LETTERS "m:b:n:"
#define SA_REPORT_OPTIONS                                                                          \
    {"metric", required_argument, NULL, 'm'}, {"by", required_argument, NULL, 'b'},                \
    {                                                                                              \
        "rows", required_argument, NULL, 'n'                                                       \
    }

/* The options before any is given: ten rows, the columns of the terminal. */
struct sa_report_options sa_report_options_default(void);

/* Takes an option with its argument, or says what is wrong with it. Returns the exit code then,
 * else -1. */
int sa_report_option(const struct sa_command *command, int letter, const char *argument,
                     struct sa_report_options *ret);

#endif
