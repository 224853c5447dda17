/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands that print tables of profiles. */
#ifndef SA_TOOL_COMMAND_REPORT_OPTIONS_H
#define SA_TOOL_COMMAND_REPORT_OPTIONS_H

#include "tool/command/command.h"
#include "tool/report/file_report.h"

/* Rows of a table of options; the struct `type` has a struct sa_report_options `field`. */
#define SA_OPTION_METRIC(type, field)                                                              \
    {                                                                                              \
        'm', "metric", "NAME", "as alloc_space; else the one that the profile shows first\n",      \
            offsetof(type, field.metric), sa_take_text                                             \
    }
#define SA_OPTION_BY(type, field)                                                                  \
    {                                                                                              \
        'b', "by", "TABLES",                                                                       \
            "which tables, as line,stack: function, line, library, size, thread,\n"                \
            "lifetime, stack; else all that have something to say\n",                              \
            offsetof(type, field.by), sa_take_tables                                               \
    }
#define SA_OPTION_ROWS(type, field)                                                                \
    {                                                                                              \
        'n', "rows", "N", "the N largest rows of each table, 10 without it; 0: all\n",             \
            offsetof(type, field.rows), sa_take_rows                                               \
    }

#define SA_OPTION_DEBUGINFOD                                                                       \
    {                                                                                              \
        0, "debuginfod", "TIME",                                                                   \
            "how long to wait in all for servers of debug information\n"                           \
            "(DEBUGINFOD_URLS); 2 s without it; 0: do not ask them\n",                             \
            0, sa_take_debuginfod                                                                  \
    }

/* The options before any is given: ten rows, the columns of the terminal. */
struct sa_report_options sa_report_options_default(void);

const char *sa_take_tables(const char *argument, void *field);
const char *sa_take_rows(const char *argument, void *field);
const char *sa_take_debuginfod(const char *argument, void *field); /* its field is not used */

#endif
