/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report in the text formats of OpenMetrics 1.0, which Prometheus reads, and of Prometheus
 * (0.0.4), which node_exporter reads and which has neither units nor the type "info": a metric
 * family for each figure, with samples for each class that has been used and for each CPU.
 */
#ifndef SA_STATS_OPENMETRICS_H
#define SA_STATS_OPENMETRICS_H

#include "alloc/base/fmt.h"
#include "stats/report_input.h"

/* Writes a report input as OpenMetrics; like sa_text_format, also if r is NULL (no families). */
void sa_openmetrics_format(struct sa_fmt *f, const struct sa_report_input *r);

/*
 * The same, in the format of Prometheus. file: the value of a label of all samples, which tells
 * this file from others that one collector reads: it refuses the same sample twice. At most its
 * last SA_PROMETHEUS_FILE_MAX characters, with '_' for what is not printable ASCII, a quote or a
 * backslash. Empty: no such label.
 */
void sa_prometheus_format(struct sa_fmt *f, const struct sa_report_input *r, const char *file);

#define SA_PROMETHEUS_FILE_MAX 64

#endif
