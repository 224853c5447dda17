/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report in two text formats: OpenMetrics 1.0, which Prometheus reads, and Prometheus 0.0.4,
 * which node_exporter reads. The latter has neither units nor the type "info". Each metric is a
 * family. Families of classes and CPUs have a sample for each one that was used.
 */
#ifndef SA_STATS_OPENMETRICS_H
#define SA_STATS_OPENMETRICS_H

#include "alloc/base/fmt.h"
#include "stats/report_input.h"

/* Writes a report input as OpenMetrics, under the rules of sa_text_format (stats/text.h). r: NULL
 * if there is no memory for one; the text then has no families. */
void sa_openmetrics_format(struct sa_fmt *f, const struct sa_report_input *r);

/*
 * Writes the same in the format of Prometheus. file: the value of the label `file` of all samples;
 * empty: no label. A collector that reads several files refuses the same sample twice; the label
 * keeps the samples of files apart. Its value is at most the last SA_PROMETHEUS_FILE_MAX characters
 * of `file`. Quotes, backslashes and characters outside printable ASCII become '_'.
 */
void sa_prometheus_format(struct sa_fmt *f, const struct sa_report_input *r, const char *file);

#define SA_PROMETHEUS_FILE_MAX 64

/* Writes the metrics of the whole alone, without those of the hugepage heap, of classes and of
 * CPUs. classic: in the format of Prometheus. */
void sa_openmetrics_format_whole(struct sa_fmt *f, const struct sa_report_input *r, bool classic);

#endif
