/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of a report are by, as text: their titles, and the keys of their rows. */
#ifndef SA_TOOL_REPORT_REPORT_KEYS_H
#define SA_TOOL_REPORT_REPORT_KEYS_H

#include "tool/report/report_rows.h"

#include <stdio.h>

/* The bits of tables whose names are in a list, as "line,stack"; 0: one of them is none. */
unsigned sa_report_by(const char *list);

/* Prints an empty line and the title of a table of a metric. */
void sa_report_put_title(enum sa_report_table table, const struct sa_file_type *metric, FILE *to);

/* Prints the key of a row behind its numbers, and ends the line. used: columns of the numbers;
 * width: columns of a line, at least 80; 0: no limit. */
void sa_report_put_key(enum sa_report_table table, const struct sa_report_rows *rows,
                       const struct sa_report_row *row, unsigned used, unsigned width, FILE *to);

/* Whether a table that nobody has asked for says something. */
bool sa_report_says_something(const struct sa_profile_file *file, enum sa_report_table table,
                              const struct sa_report_rows *rows);

#endif
