/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptions of the metrics, and the computation of their values; see metrics.h. */
#include "stats/metrics.h"

#include "alloc/base/fatal.h"
#include "alloc/base/size_class.h"
#include "alloc/os/vm.h"

#define ENTRY(name, kind, value, help) {#name, help, SA_METRIC_##kind},
#define VALUE(name, kind, value, help) ret->name = value;
#define FITS(id, kind, value, text)                                                                \
    SA_STATIC_ASSERT(sizeof(#id) <= sizeof(((struct sa_metric *)0)->name) &&                       \
                         sizeof(text) <= sizeof(((struct sa_metric *)0)->help),                    \
                     "longer than the arrays of struct sa_metric: " #id);

#define SA_METRIC       FITS
#define SA_HUGE_METRIC  FITS
#define SA_CLASS_METRIC FITS
#define SA_CPU_METRIC   FITS
#include "stats/metrics.def"
#include "stats/metrics_huge.def"

#define SA_METRIC ENTRY
const struct sa_metric sa_metrics[SA_METRICS] = {
#include "stats/metrics.def"
};

#define SA_HUGE_METRIC ENTRY
const struct sa_metric sa_huge_metrics[SA_HUGE_METRICS] = {
#include "stats/metrics_huge.def"
};

#define SA_CLASS_METRIC ENTRY
const struct sa_metric sa_class_metrics[SA_CLASS_METRICS] = {
#include "stats/metrics.def"
};

#define SA_CPU_METRIC ENTRY
const struct sa_metric sa_cpu_metrics[SA_CPU_METRICS] = {
#include "stats/metrics.def"
};

#define SA_METRIC VALUE
void sa_metrics_read(const struct sa_snapshot *s, union sa_metric_values *ret)
{
#include "stats/metrics.def"
}

#define SA_HUGE_METRIC VALUE
void sa_huge_metrics_read(const struct sa_report_input *r, union sa_huge_metric_values *ret)
{
    const struct sa_huge_stats *h = &r->huge;
    const struct sa_vm_coverage *coverage = &r->coverage;

    SA_DCHECK(r->has_huge);
#include "stats/metrics_huge.def"
}

#define SA_CLASS_METRIC VALUE
void sa_class_metrics_read(const struct sa_report_input *r, unsigned cls,
                           union sa_class_metric_values *ret)
{
    const struct sa_snapshot_class *c = &r->s.cls[cls];
    const struct sa_class_detail *d = &r->cls[cls];
    const struct sa_class *k = &sa_size_classes.of[cls];

    SA_DCHECK(cls > 0 && cls < r->s.classes);
#include "stats/metrics.def"
}

#define SA_CPU_METRIC VALUE
void sa_cpu_metrics_read(const struct sa_cpu_cache_stats *c, union sa_cpu_metric_values *ret)
{
#include "stats/metrics.def"
}
