/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a comparison of two profiles: the sums of each profile by keys (report_rows.h), and
 * what chance explains of their changes. Chance is that of the sample: which blocks it holds.
 */
#ifndef SA_TOOL_DIFF_DIFF_ROWS_H
#define SA_TOOL_DIFF_DIFF_ROWS_H

#include "tool/diff/change.h"
#include "tool/diff/diff_common.h"
#include "tool/report/report_rows.h"

#define SA_DIFF_ERROR 0.05 /* of an interval, and of all rows together that are called certain */

/* What the samples tell of a change. */
enum sa_diff_kind {
    SA_DIFF_PLAIN,     /* nothing: it has no interval */
    SA_DIFF_IN_USE,    /* samples in both profiles cancel */
    SA_DIFF_ALLOCATED, /* totals of different processes */
    SA_DIFF_SINCE,     /* totals of one process: what it has allocated in between */
};

struct sa_diff_row {
    const struct sa_report_row *before, *after; /* NULL: it is not there */
    size_t number;                              /* in the order of keys */
    struct sa_change change;
    int64_t value_before, value_after;
    bool known;       /* there is an interval */
    bool significant; /* chance does not explain it */
    bool chance;      /* chance explains it; neither: that is not known, or not asked */
};

struct sa_diff_table {
    enum sa_report_table table;
    struct sa_report_rows before, after;
    struct sa_diff_row *rows; /* what chance explains last, each part by the size of the change */
    size_t count, significant, chance;
};

struct sa_diff {
    struct sa_report before, after;
    struct sa_diff_common common;
    enum sa_diff_kind kind;
    struct sa_unseen unseen; /* what may have no sample in one of the files */
    double weight;           /* how many blocks one of its samples stands for on average */
    struct sa_diff_row total;
    double error; /* of an interval that has to exclude 0 for its row to be called a change */
    struct sa_diff_table tables[SA_REPORT_TABLES];
    size_t table_count;
};

/*
 * Compares a metric of two profiles. by: bits of the tables, 1 << enum sa_report_table; 0:
 * those that say something. The metrics have the same name. False: there is no memory, and nothing
 * to close.
 */
bool sa_diff_open(struct sa_diff *d, const struct sa_profile_file *before,
                  const struct sa_profile_file *after, uint32_t metric_before,
                  uint32_t metric_after, unsigned by);
void sa_diff_close(struct sa_diff *d);

/* A change as a number; exact below 2^53. */
double sa_diff_value(const struct sa_diff_row *row);

#endif
