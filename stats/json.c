/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON; see json.h. No state. */
#include "stats/json.h"

#include "alloc/os/clock.h"
#include "alloc/os/sys.h"
#include "stats/metrics.h"
#include "stats/report.h"

/* Writes the metrics of one kind as an object. between: what precedes each member. */
static void members(struct sa_fmt *f, const struct sa_metric *metrics, const uint64_t *values,
                    size_t count, enum sa_metric_kind kind, const char *between)
{
    const char *separator = "";

    sa_fmt_add(f, "{");
    for (size_t i = 0; i < count; i++) {
        if (metrics[i].kind != kind)
            continue;
        sa_fmt_add(f, "%s%s\"%s\": %llu", separator, between, metrics[i].name, values[i]);
        separator = ",";
    }
    sa_fmt_add(f, "}");
}

static void both_kinds(struct sa_fmt *f, const struct sa_metric *metrics, const uint64_t *values,
                       size_t count, const char *between)
{
    sa_fmt_add(f, "\"gauges\": ");
    members(f, metrics, values, count, SA_METRIC_GAUGE, between);
    sa_fmt_add(f, ", \"counters\": ");
    members(f, metrics, values, count, SA_METRIC_COUNTER, between);
}

static void head(struct sa_fmt *f, const struct sa_snapshot *s)
{
    const struct sa_snapshot_subject *subject = sa_snapshot_subject;

    sa_fmt_add(f, "{\n\"schema\": \"salloc stats\",\n\"schema_version\": %d,\n",
               SA_JSON_SCHEMA_VERSION);
    sa_fmt_add(f, "\"version\": \"%s\",\n\"pid\": %d,\n\"time_ns\": %llu,\n", sa_snapshot_version(),
               subject ? subject->pid : sa_sys_pid(),
               subject ? subject->time_ns : sa_clock_calendar_ns());
    sa_fmt_add(f, "\"experiments\": {");
    for (unsigned i = 0; i < SA_EXPERIMENTS; i++)
        sa_fmt_add(f, "%s\"%s\": %zu", i ? ", " : "", sa_experiment_names[i], s->experiment[i]);
    sa_fmt_add(f, "},\n");
    if (sa_report_options) {
        sa_fmt_add(f, "\"options\": ");
        sa_report_options(f, true);
        sa_fmt_add(f, ",\n");
    }
}

static void hugepages(struct sa_fmt *f, const struct sa_report_input *r)
{
    union sa_huge_metric_values values;

    if (!r->has_huge)
        return;
    sa_huge_metrics_read(r, &values);
    sa_fmt_add(f, "\"hugepages\": {\n");
    both_kinds(f, sa_huge_metrics, values.of, SA_HUGE_METRICS, "\n  ");
    sa_fmt_add(f, "},\n");
}

static void classes(struct sa_fmt *f, const struct sa_report_input *r)
{
    union sa_class_metric_values values;

    sa_fmt_add(f, "\"classes\": [");
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        sa_class_metrics_read(r, cls, &values);
        sa_fmt_add(f, "%s\n{\"class\": %u, \"size_bytes\": %zu, ", cls > 1 ? "," : "", cls,
                   r->s.cls[cls].size);
        both_kinds(f, sa_class_metrics, values.of, SA_CLASS_METRICS, " ");
        sa_fmt_add(f, ", \"spans_by_used_objects\": [");
        for (unsigned i = 0; i < SA_CENTRAL_BUCKETS; i++)
            sa_fmt_add(f, "%s%zu", i ? ", " : "", r->cls[cls].central.utilization[i]);
        sa_fmt_add(f, "]}");
    }
    sa_fmt_add(f, "\n],\n");
}

static void cpus(struct sa_fmt *f)
{
    int count = sa_cpu_cache_count();
    union sa_cpu_metric_values values;
    const char *separator = "";

    sa_fmt_add(f, "\"cpus\": [");
    for (int cpu = 0; cpu < count; cpu++) {
        struct sa_cpu_cache_stats c;

        sa_cpu_cache_stats(cpu, &c);
        if (!c.populated)
            continue;
        sa_cpu_metrics_read(&c, &values);
        sa_fmt_add(f, "%s\n{\"cpu\": %d, ", separator, cpu);
        both_kinds(f, sa_cpu_metrics, values.of, SA_CPU_METRICS, " ");
        sa_fmt_add(f, "}");
        separator = ",";
    }
    sa_fmt_add(f, "\n]\n}\n");
}

void sa_json_format(struct sa_fmt *f, const struct sa_report_input *r)
{
    union sa_metric_values values;

    if (!r) {
        sa_fmt_add(f,
                   "{\"schema\": \"salloc stats\", \"schema_version\": %d, \"error\": "
                   "\"out of memory\"}\n",
                   SA_JSON_SCHEMA_VERSION);
        return;
    }
    sa_metrics_read(&r->s, &values);
    head(f, &r->s);
    both_kinds(f, sa_metrics, values.of, SA_METRICS, "\n  ");
    sa_fmt_add(f, ",\n");
    hugepages(f, r);
    classes(f, r);
    cpus(f);
}
