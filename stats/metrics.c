/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of figures and their values; see metrics.h. */
#include "stats/metrics.h"

#include "alloc/base/size_class.h"
#include "alloc/os/vm.h"

#include <string.h>

#define ENTRY(name, kind, value, help) {#name, help, SA_METRIC_##kind},
#define VALUE(name, kind, value, help) value,
#define FITS(id, kind, value, text)                                                                \
    SA_STATIC_ASSERT(sizeof(#id) <= sizeof(((struct sa_metric *)0)->name) &&                       \
                         sizeof(text) <= sizeof(((struct sa_metric *)0)->help),                    \
                     "longer than the arrays of struct sa_metric: " #id);

#define SA_METRIC       FITS
#define SA_HUGE_METRIC  FITS
#define SA_CLASS_METRIC FITS
#define SA_CPU_METRIC   FITS
#include "stats/metrics.def"

#define SA_METRIC ENTRY
const struct sa_metric sa_metrics[SA_METRICS] = {
#include "stats/metrics.def"
};

#define SA_HUGE_METRIC ENTRY
const struct sa_metric sa_huge_figures[SA_HUGE_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_CLASS_METRIC ENTRY
const struct sa_metric sa_class_figures[SA_CLASS_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_CPU_METRIC ENTRY
const struct sa_metric sa_cpu_figures[SA_CPU_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_METRIC VALUE
void sa_metrics_read(const struct sa_snapshot *s, uint64_t ret[SA_METRICS])
{
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}

#define SA_HUGE_METRIC VALUE
void sa_huge_figures_read(const struct sa_report_input *r, uint64_t ret[SA_HUGE_FIGURES])
{
    const struct sa_huge_stats *h = &r->huge;
    const struct sa_vm_coverage *coverage = &r->coverage;
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}

#define SA_CLASS_METRIC VALUE
void sa_class_figures_read(const struct sa_report_input *r, unsigned cls,
                           uint64_t ret[SA_CLASS_FIGURES])
{
    const struct sa_snapshot_class *c = &r->s.cls[cls];
    const struct sa_class_detail *d = &r->cls[cls];
    const struct sa_class *k = &sa_size_classes.of[cls];
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}

#define SA_CPU_METRIC VALUE
void sa_cpu_figures_read(const struct sa_cpu_cache_stats *c, uint64_t ret[SA_CPU_FIGURES])
{
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}
