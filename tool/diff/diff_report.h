/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison of two profiles as tables, for people. */
#ifndef SA_TOOL_DIFF_DIFF_REPORT_H
#define SA_TOOL_DIFF_DIFF_REPORT_H

#include "tool/report/file_report.h"

/*
 * Prints the change of the total and the tables of a metric that both files have. color: marks rows
 * for a terminal. False: there is no memory.
 */
bool sa_diff_report(const struct sa_profile_file *before, const struct sa_profile_file *after,
                    uint32_t metric_before, uint32_t metric_after,
                    const struct sa_report_options *options, bool color, FILE *to);

#endif
