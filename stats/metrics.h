/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a report for machines: names and values; metrics.def has the list. */
#ifndef SA_STATS_METRICS_H
#define SA_STATS_METRICS_H

#include "stats/report_input.h"

enum sa_metric_kind { SA_METRIC_GAUGE, SA_METRIC_COUNTER };

/* Texts, not pointers to them: those would have to be relocated at every start of a process. */
struct sa_metric {
    char name[40], help[96];
    enum sa_metric_kind kind;
};

/* How many of each set. */
#define SA_METRIC(name, kind, value, help) +1
enum {
    SA_METRICS = 0
#include "stats/metrics.def"
};

#define SA_HUGE_METRIC(name, kind, value, help) +1
enum {
    SA_HUGE_FIGURES = 0
#include "stats/metrics.def"
};

#define SA_CLASS_METRIC(name, kind, value, help) +1
enum {
    SA_CLASS_FIGURES = 0
#include "stats/metrics.def"
};

#define SA_CPU_METRIC(name, kind, value, help) +1
enum {
    SA_CPU_FIGURES = 0
#include "stats/metrics.def"
};

extern const struct sa_metric sa_metrics[SA_METRICS];
extern const struct sa_metric sa_huge_figures[SA_HUGE_FIGURES];
extern const struct sa_metric sa_class_figures[SA_CLASS_FIGURES];
extern const struct sa_metric sa_cpu_figures[SA_CPU_FIGURES];

/* The values, in the order of the names. */
void sa_metrics_read(const struct sa_snapshot *s, uint64_t ret[SA_METRICS]);
void sa_huge_figures_read(const struct sa_report_input *r, uint64_t ret[SA_HUGE_FIGURES]);
void sa_class_figures_read(const struct sa_report_input *r, unsigned cls,
                           uint64_t ret[SA_CLASS_FIGURES]);
void sa_cpu_figures_read(const struct sa_cpu_cache_stats *c, uint64_t ret[SA_CPU_FIGURES]);

#endif
