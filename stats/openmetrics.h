/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report in the text format of OpenMetrics 1.0, which Prometheus reads: a metric family for each figure, with
 * samples for each class that has been used and for each CPU.
 */
#ifndef SA_STATS_OPENMETRICS_H
#define SA_STATS_OPENMETRICS_H

#include "alloc/base/fmt.h"

/* Needs at most sa_report_size() bytes. Allocates nothing; holds no lock while formatting. */
void sa_openmetrics_format(struct sa_fmt *f);

#endif
