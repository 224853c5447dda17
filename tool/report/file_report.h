/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a profile file, for people. */
#ifndef SA_TOOL_REPORT_FILE_REPORT_H
#define SA_TOOL_REPORT_FILE_REPORT_H

#include "tool/file/profile_file.h"

#include <stdio.h>

struct sa_report_options {
    const char *metric; /* NULL: the one that the profile shows first */
    unsigned by;    /* bits of the tables: 1 << enum sa_report_table; 0: those that say something */
    unsigned rows;  /* of a table at most; 0: all */
    unsigned width; /* columns of a line, at least 80; 0: no limit */
};

/* Prints the total and the tables of a metric. False: there is no memory. */
bool sa_file_report(const struct sa_profile_file *file, uint32_t metric,
                    const struct sa_report_options *options, FILE *to);

#endif
