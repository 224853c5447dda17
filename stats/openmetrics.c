/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report in the text formats of OpenMetrics and Prometheus; see openmetrics.h. No state. The
 * family of a counter has the name without "_total" in OpenMetrics, and with it in Prometheus.
 */
#include "stats/openmetrics.h"

#include "alloc/base/fatal.h"
#include "stats/metrics.h"

#include <string.h>

struct writer {
    struct sa_fmt *f;
    bool classic;       /* the format of Prometheus */
    const char *common; /* a label of all samples, as name="value", or "" */
};

/* The unit that a name ends in; NULL: the metric is a count. */
static const char *unit_of(const char *name)
{
    const char *last = strrchr(name, '_');

    if (last && (strcmp(last, "_bytes") == 0 || strcmp(last, "_seconds") == 0))
        return last + 1;
    return NULL;
}

static const char *total_of(const struct sa_metric *metric)
{
    return metric->kind == SA_METRIC_COUNTER ? "_total" : "";
}

/* Writes the lines before the samples of a family. set: "", "hugepages_", "class_" or "cpu_". */
static void family(const struct writer *w, const char *set, const struct sa_metric *metric)
{
    const char *unit = unit_of(metric->name), *end = w->classic ? total_of(metric) : "";

    sa_fmt_add(w->f, "# TYPE salloc_%s%s%s %s\n", set, metric->name, end,
               metric->kind == SA_METRIC_COUNTER ? "counter" : "gauge");
    if (unit && !w->classic)
        sa_fmt_add(w->f, "# UNIT salloc_%s%s %s\n", set, metric->name, unit);
    sa_fmt_add(w->f, "# HELP salloc_%s%s%s %s\n", set, metric->name, end, metric->help);
}

/* Writes the labels between a sample's name and its value. own: the sample's own labels, or "". */
static void labels(const struct writer *w, const char *own)
{
    const char *comma = *own && *w->common ? "," : "";

    if (*own || *w->common)
        sa_fmt_add(w->f, "{%s%s%s}", own, comma, w->common);
    sa_fmt_add(w->f, " ");
}

static void sample(const struct writer *w, const char *set, const struct sa_metric *metric,
                   const char *own, uint64_t value)
{
    sa_fmt_add(w->f, "salloc_%s%s%s", set, metric->name, total_of(metric));
    labels(w, own);
    sa_fmt_add(w->f, "%llu\n", value);
}

/* Writes families with one sample each. */
static void plain(const struct writer *w, const char *set, const struct sa_metric *metrics,
                  const uint64_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        family(w, set, &metrics[i]);
        sample(w, set, &metrics[i], "", values[i]);
    }
}

static void build(const struct writer *w, const struct sa_snapshot *s)
{
    const char *end = w->classic ? "_info" : "", *type = w->classic ? "gauge" : "info";
    const char *caches = s->experiment[SA_EXPERIMENT_PER_CPU] ? "cpu" : "thread";
    char own[100];
    struct sa_fmt f;

    sa_fmt_init(&f, own, sizeof(own));
    sa_fmt_add(&f, "version=\"%s\",caches=\"%s\"", sa_snapshot_version(), caches);
    SA_DCHECK(!f.truncated);
    sa_fmt_add(w->f, "# TYPE salloc_build%s %s\n", end, type);
    sa_fmt_add(w->f, "# HELP salloc_build%s which library this is\nsalloc_build_info", end);
    labels(w, own);
    sa_fmt_add(w->f, "1\n");
}

static void whole(const struct writer *w, const struct sa_snapshot *s)
{
    union sa_metric_values values;

    sa_metrics_read(s, &values);
    plain(w, "", sa_metrics, values.of, SA_METRICS);
    sa_fmt_add(w->f, "# TYPE salloc_realized_fragmentation_ratio gauge\n");
    if (!w->classic)
        sa_fmt_add(w->f, "# UNIT salloc_realized_fragmentation_ratio ratio\n");
    sa_fmt_add(w->f, "# HELP salloc_realized_fragmentation_ratio physical beyond allocated bytes "
                     "at the peak, by the latter\nsalloc_realized_fragmentation_ratio");
    labels(w, "");
    sa_fmt_add(w->f, "%.6F\n", sa_snapshot_fragmentation(s));
}

static void hugepages(const struct writer *w, const struct sa_report_input *r)
{
    union sa_huge_metric_values values;

    if (!r->has_huge)
        return;
    sa_huge_metrics_read(r, &values);
    plain(w, "hugepages_", sa_huge_metrics, values.of, SA_HUGE_METRICS);
}

/* Classes that never had a span are left out: each would add two dozen series of zeros. */
static void classes(const struct writer *w, const struct sa_report_input *r)
{
    union sa_class_metric_values values;

    for (size_t i = 0; i < SA_CLASS_METRICS; i++) {
        family(w, "class_", &sa_class_metrics[i]);
        for (unsigned cls = 1; cls < r->s.classes; cls++) {
            char own[64];
            struct sa_fmt f;

            if (!r->s.cls[cls].spans_requested)
                continue;
            sa_fmt_init(&f, own, sizeof(own));
            sa_fmt_add(&f, "class=\"%u\",size=\"%zu\"", cls, r->s.cls[cls].size);
            SA_DCHECK(!f.truncated);
            sa_class_metrics_read(r, cls, &values);
            sample(w, "class_", &sa_class_metrics[i], own, values.of[i]);
        }
    }
}

static void cpus(const struct writer *w)
{
    int count = sa_cpu_cache_count();
    union sa_cpu_metric_values values;

    for (size_t i = 0; i < SA_CPU_METRICS; i++) {
        family(w, "cpu_", &sa_cpu_metrics[i]);
        for (int cpu = 0; cpu < count; cpu++) {
            struct sa_cpu_cache_stats c;
            char own[32];
            struct sa_fmt f;

            sa_cpu_cache_stats(cpu, &c);
            if (!c.populated)
                continue;
            sa_fmt_init(&f, own, sizeof(own));
            sa_fmt_add(&f, "cpu=\"%d\"", cpu);
            SA_DCHECK(!f.truncated);
            sa_cpu_metrics_read(&c, &values);
            sample(w, "cpu_", &sa_cpu_metrics[i], own, values.of[i]);
        }
    }
}

static void format(const struct writer *w, const struct sa_report_input *r)
{
    if (!r)
        return;
    build(w, &r->s);
    whole(w, &r->s);
    hugepages(w, r);
    classes(w, r);
    cpus(w);
}

SA_COLD void sa_openmetrics_format_whole(struct sa_fmt *f, const struct sa_report_input *r,
                                         bool classic)
{
    const struct writer w = {f, classic, ""};

    if (r) {
        build(&w, &r->s);
        whole(&w, &r->s);
    }
    if (!classic)
        sa_fmt_add(f, "# EOF\n");
}

void sa_openmetrics_format(struct sa_fmt *f, const struct sa_report_input *r)
{
    format(&(struct writer){f, false, ""}, r);
    sa_fmt_add(f, "# EOF\n");
}

void sa_prometheus_format(struct sa_fmt *f, const struct sa_report_input *r, const char *file)
{
    char common[SA_PROMETHEUS_FILE_MAX + sizeof("file=\"\"")];
    struct sa_fmt label;
    size_t len = strlen(file);

    sa_fmt_init(&label, common, sizeof(common));
    if (len) {
        file += len - (len < SA_PROMETHEUS_FILE_MAX ? len : SA_PROMETHEUS_FILE_MAX);
        sa_fmt_add(&label, "file=\"");
        for (; *file; file++)
            sa_fmt_add(&label, "%c",
                       *file < ' ' || *file > '~' || strchr("\"\\", *file) ? '_' : *file);
        sa_fmt_add(&label, "\"");
    }
    SA_DCHECK(!label.truncated);
    format(&(struct writer){f, true, common}, r);
}
