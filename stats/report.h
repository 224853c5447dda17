/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page as text, in the malloc-stats layout, and its other formats; doc/stats.md explains
 * every line. */
#ifndef SA_STATS_REPORT_H
#define SA_STATS_REPORT_H

#include "alloc/base/fmt.h"

/* Writes the page to a buffer. Allocates nothing; holds no lock while formatting. */
void sa_report_format(struct sa_fmt *f);

/* Adds the options that are in effect, as lines of the page or as a JSON object. Set by the
 * initialisation; NULL: nobody has options. */
extern void (*sa_report_options)(struct sa_fmt *f, bool json);

enum sa_report_kind {
    SA_REPORT_TEXT,
    SA_REPORT_JSON,
    SA_REPORT_OPENMETRICS,
    SA_REPORT_PROMETHEUS,
    SA_REPORT_KINDS,
};

/* The same as text or in another format. */
void sa_report_format_as(enum sa_report_kind kind, struct sa_fmt *f);

/* What the ending of a path asks for: .json, .openmetrics, .prom; anything else is text. */
enum sa_report_kind sa_report_kind_of_path(const char *path);

/* A report for the file of that path; in the format of Prometheus all samples have its name as a
 * label. */
void sa_report_format_file(enum sa_report_kind kind, const char *path, struct sa_fmt *f);

/* The mode of such a file: the collector that reads the format of Prometheus runs as a user of its
 * own. */
int sa_report_file_mode(enum sa_report_kind kind);

/* The page to a file descriptor: 0, or -1 with errno. */
int sa_report_write(int fd);

/* Bytes that hold any report, in any format. */
size_t sa_report_size(void);

#endif
