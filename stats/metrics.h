/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metrics: descriptions and values, in four sets (the whole, the hugepage-aware heap, a size
 * class, a CPU). metrics.def and metrics_huge.def have the list. Every format reads its numbers
 * here, so that no two formats disagree.
 */
#ifndef SA_STATS_METRICS_H
#define SA_STATS_METRICS_H

#include "stats/report_input.h"

enum sa_metric_kind { SA_METRIC_GAUGE, SA_METRIC_COUNTER };

/* Texts, not pointers to them: the loader would relocate those at every start of a process. */
struct sa_metric {
    char name[40], help[96];
    enum sa_metric_kind kind;
};

/* The sizes of the sets. */
#define SA_METRIC(name, kind, value, help) +1
enum {
    SA_METRICS = 0
#include "stats/metrics.def"
};

#define SA_HUGE_METRIC(name, kind, value, help) +1
enum {
    SA_HUGE_METRICS = 0
#include "stats/metrics_huge.def"
};

#define SA_CLASS_METRIC(name, kind, value, help) +1
enum {
    SA_CLASS_METRICS = 0
#include "stats/metrics.def"
};

#define SA_CPU_METRIC(name, kind, value, help) +1
enum {
    SA_CPU_METRICS = 0
#include "stats/metrics.def"
};

/* The values of a set: each by its name, and all in the order of the descriptions. */
#define SA_METRIC(name, kind, value, help) uint64_t name;
union sa_metric_values {
    struct {
#include "stats/metrics.def"
    };
    uint64_t of[SA_METRICS];
};

#define SA_HUGE_METRIC(name, kind, value, help) uint64_t name;
union sa_huge_metric_values {
    struct {
#include "stats/metrics_huge.def"
    };
    uint64_t of[SA_HUGE_METRICS];
};

#define SA_CLASS_METRIC(name, kind, value, help) uint64_t name;
union sa_class_metric_values {
    struct {
#include "stats/metrics.def"
    };
    uint64_t of[SA_CLASS_METRICS];
};

#define SA_CPU_METRIC(name, kind, value, help) uint64_t name;
union sa_cpu_metric_values {
    struct {
#include "stats/metrics.def"
    };
    uint64_t of[SA_CPU_METRICS];
};

extern const struct sa_metric sa_metrics[SA_METRICS];
extern const struct sa_metric sa_huge_metrics[SA_HUGE_METRICS];
extern const struct sa_metric sa_class_metrics[SA_CLASS_METRICS];
extern const struct sa_metric sa_cpu_metrics[SA_CPU_METRICS];

/*
 * Compute the values of a set from what was read before. No locks, no allocation.
 * sa_huge_metrics_read requires r->has_huge; sa_class_metrics_read requires
 * 1 <= cls < r->s.classes.
 */
void sa_metrics_read(const struct sa_snapshot *s, union sa_metric_values *ret);
void sa_huge_metrics_read(const struct sa_report_input *r, union sa_huge_metric_values *ret);
void sa_class_metrics_read(const struct sa_report_input *r, unsigned cls,
                           union sa_class_metric_values *ret);
void sa_cpu_metrics_read(const struct sa_cpu_cache_stats *c, union sa_cpu_metric_values *ret);

#endif
