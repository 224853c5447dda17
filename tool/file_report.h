/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of a profile file, for people. */
#ifndef SA_TOOL_FILE_REPORT_H
#define SA_TOOL_FILE_REPORT_H

#include "tool/profile_file.h"

#include <stdio.h>

/* Prints the total and the tables of a metric, each with at most `rows` rows, in lines of at most
 * `width` columns. False: there is no memory. */
bool sa_file_report(const struct sa_profile_file *file, uint32_t metric, unsigned rows, int width,
                    FILE *to);

#endif
