/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds memory in a process, and who grew in the last seconds: its heap profile, read again and
 * again. */
#ifndef SA_TOOL_TOP_HOLDERS_H
#define SA_TOOL_TOP_HOLDERS_H

#include "tool/report/file_report.h"
#include "tool/top/row.h"

#define SA_HOLDERS_PAST 16 /* readings that are remembered */

struct sa_holders {
    pid_t pid;
    struct sa_row_values row;
    struct sa_holders_reading {
        double at; /* seconds of the monotonic clock */
        struct sa_profile_file file;
    } past[SA_HOLDERS_PAST]; /* the oldest first */
    size_t count;
};

/* Reads the process. What was read before stays, also after an error. */
bool sa_holders_read(struct sa_holders *h, struct sa_error *e);

/*
 * Prints the process, its holders, and what changed within about `seconds`, with intervals; less
 * while there are no two readings that far apart. False: there is no memory.
 */
bool sa_holders_print(const struct sa_holders *h, const struct sa_report_options *options,
                      double seconds, FILE *to);

void sa_holders_free(struct sa_holders *h);

#endif
