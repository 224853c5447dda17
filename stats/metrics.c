/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of figures and their values; see metrics.h. */
#include "stats/metrics.h"

#include "alloc/base/size_class.h"
#include "alloc/os/vm.h"

#include <string.h>

#define ENTRY(name, kind, value, help) {#name, help, SA_FIGURE_##kind},
#define VALUE(name, kind, value, help) value,
#define FITS(id, kind, value, text)                                                                \
    SA_STATIC_ASSERT(sizeof(#id) <= sizeof(((struct sa_figure *)0)->name) &&                       \
                         sizeof(text) <= sizeof(((struct sa_figure *)0)->help),                    \
                     "longer than the arrays of struct sa_figure: " #id);

#define SA_FIGURE       FITS
#define SA_HUGE_FIGURE  FITS
#define SA_CLASS_FIGURE FITS
#define SA_CPU_FIGURE   FITS
#include "stats/metrics.def"

#define SA_FIGURE ENTRY
const struct sa_figure sa_figures[SA_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_HUGE_FIGURE ENTRY
const struct sa_figure sa_huge_figures[SA_HUGE_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_CLASS_FIGURE ENTRY
const struct sa_figure sa_class_figures[SA_CLASS_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_CPU_FIGURE ENTRY
const struct sa_figure sa_cpu_figures[SA_CPU_FIGURES] = {
#include "stats/metrics.def"
};

#define SA_FIGURE VALUE
void sa_figures_read(const struct sa_snapshot *s, uint64_t ret[SA_FIGURES])
{
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}

#define SA_HUGE_FIGURE VALUE
void sa_huge_figures_read(const struct sa_reading *r, uint64_t ret[SA_HUGE_FIGURES])
{
    const struct sa_huge_stats *h = &r->huge;
    const struct sa_vm_coverage *coverage = &r->coverage;
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}

#define SA_CLASS_FIGURE VALUE
void sa_class_figures_read(const struct sa_reading *r, unsigned cls, uint64_t ret[SA_CLASS_FIGURES])
{
    const struct sa_snapshot_class *c = &r->s.cls[cls];
    const struct sa_class_detail *d = &r->cls[cls];
    const struct sa_class *k = &sa_size_classes.of[cls];
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}

#define SA_CPU_FIGURE VALUE
void sa_cpu_figures_read(const struct sa_cpu_cache_stats *c, uint64_t ret[SA_CPU_FIGURES])
{
    const uint64_t values[] = {
#include "stats/metrics.def"
    };

    memcpy(ret, values, sizeof(values));
}
