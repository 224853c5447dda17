/* SPDX-License-Identifier: Apache-2.0 */
/* The report in the format of OpenMetrics; see openmetrics.h. */
#include "stats/openmetrics.h"

#include "stats/figures.h"

#include <string.h>

/* What a name ends in; NULL: a number of things. */
static const char *unit_of(const char *name)
{
    const char *last = strrchr(name, '_');

    if (last && (strcmp(last, "_bytes") == 0 || strcmp(last, "_seconds") == 0))
        return last + 1;
    return NULL;
}

/* What comes before the samples of a family. set: "", "hugepages_", "class_" or "cpu_". */
static void family(struct sa_fmt *f, const char *set, const struct sa_figure *figure)
{
    const char *unit = unit_of(figure->name);

    sa_fmt_add(f, "# TYPE salloc_%s%s %s\n", set, figure->name,
               figure->kind == SA_FIGURE_COUNTER ? "counter" : "gauge");
    if (unit)
        sa_fmt_add(f, "# UNIT salloc_%s%s %s\n", set, figure->name, unit);
    sa_fmt_add(f, "# HELP salloc_%s%s %s\n", set, figure->name, figure->help);
}

static void sample_name(struct sa_fmt *f, const char *set, const struct sa_figure *figure)
{
    sa_fmt_add(f, "salloc_%s%s%s", set, figure->name,
               figure->kind == SA_FIGURE_COUNTER ? "_total" : "");
}

/* Families of one sample each. */
static void plain(struct sa_fmt *f, const char *set, const struct sa_figure *figures,
                  const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        family(f, set, &figures[i]);
        sample_name(f, set, &figures[i]);
        sa_fmt_add(f, " %llu\n", values[i]);
    }
}

static void whole(struct sa_fmt *f, const struct sa_snapshot *s)
{
    uint64_t values[SA_FIGURES];

    sa_figures_read(s, values);
    plain(f, "", sa_figures, values, SA_FIGURES);
    sa_fmt_add(f, "# TYPE salloc_realized_fragmentation_ratio gauge\n"
                  "# UNIT salloc_realized_fragmentation_ratio ratio\n"
                  "# HELP salloc_realized_fragmentation_ratio physical beyond allocated bytes at "
                  "the peak, by the latter\n");
    sa_fmt_add(f, "salloc_realized_fragmentation_ratio %.6F\n", sa_snapshot_fragmentation(s));
}

static void hugepages(struct sa_fmt *f, const struct sa_reading *r)
{
    uint64_t values[SA_HUGE_FIGURES];

    if (!r->has_huge)
        return;
    sa_huge_figures_read(&r->huge, values);
    plain(f, "hugepages_", sa_huge_figures, values, SA_HUGE_FIGURES);
}

/* Classes that never had a span are left out: each would be two dozen series of zeros. */
static void classes(struct sa_fmt *f, const struct sa_reading *r)
{
    uint64_t values[SA_CLASS_FIGURES];

    for (size_t i = 0; i < SA_CLASS_FIGURES; i++) {
        family(f, "class_", &sa_class_figures[i]);
        for (unsigned cls = 1; cls < r->s.classes; cls++) {
            if (!r->s.cls[cls].spans_requested)
                continue;
            sa_class_figures_read(r, cls, values);
            sample_name(f, "class_", &sa_class_figures[i]);
            sa_fmt_add(f, "{class=\"%u\",size=\"%zu\"} %llu\n", cls, r->s.cls[cls].size, values[i]);
        }
    }
}

static void cpus(struct sa_fmt *f)
{
    int count = sa_cpu_cache_count();
    uint64_t values[SA_CPU_FIGURES];

    for (size_t i = 0; i < SA_CPU_FIGURES; i++) {
        family(f, "cpu_", &sa_cpu_figures[i]);
        for (int cpu = 0; cpu < count; cpu++) {
            struct sa_cpu_cache_stats c;

            sa_cpu_cache_stats(cpu, &c);
            if (!c.populated)
                continue;
            sa_cpu_figures_read(&c, values);
            sample_name(f, "cpu_", &sa_cpu_figures[i]);
            sa_fmt_add(f, "{cpu=\"%d\"} %llu\n", cpu, values[i]);
        }
    }
}

void sa_openmetrics_format(struct sa_fmt *f)
{
    struct sa_reading *r = sa_reading_take();

    if (r) {
        sa_fmt_add(f, "# TYPE salloc_build info\n# HELP salloc_build which library this is\n");
        sa_fmt_add(f, "salloc_build_info{version=\"" SALLOC_VERSION "\",caches=\"%s\"} 1\n",
                   r->s.experiment[SA_EXPERIMENT_PER_CPU] ? "cpu" : "thread");
        whole(f, &r->s);
        hugepages(f, r);
        classes(f, r);
        cpus(f);
        sa_reading_release(r);
    }
    sa_fmt_add(f, "# EOF\n");
}
