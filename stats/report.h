/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports: the stats page in each format, in memory or in a file descriptor. Every function may be
 * called from any number of threads at once, without a lock held. None of them allocates from
 * salloc.
 */
#ifndef SA_STATS_REPORT_H
#define SA_STATS_REPORT_H

#include "alloc/base/fmt.h"

/* Writes the page as text to a buffer. */
void sa_report_format(struct sa_fmt *f);

/* Adds the options in effect, as lines of the page or as a JSON object. The initialisation sets it,
 * before a second thread exists. NULL: there are no options. */
extern void (*sa_report_options)(struct sa_fmt *f, bool json);

enum sa_report_kind {
    SA_REPORT_TEXT,
    SA_REPORT_JSON,
    SA_REPORT_OPENMETRICS,
    SA_REPORT_PROMETHEUS,
    SA_REPORT_KINDS,
};

/* Writes the page to a buffer in the format `kind`. */
void sa_report_format_as(enum sa_report_kind kind, struct sa_fmt *f);

/* The format that the ending of a path stands for: .json, .openmetrics, .prom. All others: text. */
enum sa_report_kind sa_report_kind_of_path(const char *path);

/* Writes the page for the file at `path`. In the format of Prometheus, all samples get the file's
 * name as a label. */
void sa_report_format_file(enum sa_report_kind kind, const char *path, struct sa_fmt *f);

/* The mode of a file with a report: 0600. 0644 for Prometheus, because its collector runs as a user
 * of its own. */
int sa_report_file_mode(enum sa_report_kind kind);

/* Writes the page as text to a file descriptor. Returns 0, -ENOMEM if there is no memory, or the
 * negative errno of a write that failed. errno itself does not change. */
int sa_report_write(int fd);

/* The bytes of a buffer that holds any report, in any format. */
size_t sa_report_size(void);

#endif
