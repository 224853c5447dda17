/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a report: sums of the samples of a profile file that have a key in common. A sample
 * counts once for each row, however often its stack has the key.
 */
#ifndef SA_TOOL_REPORT_REPORT_ROWS_H
#define SA_TOOL_REPORT_REPORT_ROWS_H

#include "tool/base/intern.h"
#include "tool/file/file_interval.h"

/* The key of samples without the label that a table is by. */
#define SA_REPORT_NOT_RECORDED "[not recorded]"

/* What rows have in common. "Flat": the caller of malloc; else any function of the stack. */
enum sa_report_table {
    SA_REPORT_FUNCTION_FLAT,
    SA_REPORT_FUNCTION,
    SA_REPORT_LINE_FLAT,
    SA_REPORT_LINE,
    SA_REPORT_LIBRARY,
    SA_REPORT_SIZE,
    SA_REPORT_THREAD,
    SA_REPORT_LIFETIME,
    SA_REPORT_STACK,
    SA_REPORT_TABLES
};

/* Times from allocation to free, or to the end of the recording. */
struct sa_report_lives {
    double blocks, sum_ns; /* sum_ns: over all blocks */
    int64_t min_ns, max_ns;
};

struct sa_report_row {
    uint32_t key;    /* its number in the keys */
    uint32_t sample; /* the last one that was added, plus 1 */
    struct sa_file_sums sums;
    struct sa_report_lives lives;
};

/* A metric of a file. */
struct sa_report {
    const struct sa_profile_file *file;
    uint32_t metric;
    enum sa_file_kind kind;
    uint32_t objects;        /* index of the metric's number of blocks, or SA_FILE_NONE */
    bool has_lives;          /* samples of the metric tell of lifetimes */
    struct sa_group *groups; /* of each sample; p 0: not known */
    struct sa_file_sums all;
};

/* The rows of one table, the largest first. */
struct sa_report_rows {
    struct sa_intern keys, frames; /* frames: of keys of stacks, which are lists of their numbers */
    struct sa_report_row *of;
    size_t count, cap;
};

/* False: there is no memory. */
bool sa_report_open(struct sa_report *r, const struct sa_profile_file *file, uint32_t metric);
void sa_report_close(struct sa_report *r);

/* False: there is no memory. */
bool sa_report_rows(const struct sa_report *r, enum sa_report_table table,
                    struct sa_report_rows *ret);
void sa_report_rows_free(struct sa_report_rows *rows);

/* The text of a row's key, but of a stack. A line begins with the mark; where none is known, there
 * is the name of the function. */
#define SA_REPORT_LINE_MARK '\n'

const char *sa_report_key(const struct sa_report_rows *rows, const struct sa_report_row *row);

/* The frames of a stack's row, the leaf first: their number, and the texts of one. The line may be
 * "". */
size_t sa_report_depth(const struct sa_report_rows *rows, const struct sa_report_row *row);
void sa_report_frame(const struct sa_report_rows *rows, const struct sa_report_row *row, size_t at,
                     const char **name, const char **line);

#endif
