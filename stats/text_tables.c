/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the stats page with a row for each size class or each CPU; see text_internal.h.
 * Rows of classes are from the report input. Rows of CPUs are read as they are written, because a
 * snapshot of 8192 CPUs would take more memory than the page. Where caches are per thread, "cpu"
 * is the number of a thread's cache, and no row is marked as active: salloc does not know which
 * threads run.
 */
#include "alloc/base/bits.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"
#include "stats/metrics.h"
#include "stats/text_internal.h"

#include <string.h>

/* "class   1 [       16 bytes ] : " */
static void class_name(struct sa_fmt *f, unsigned cls, size_t size)
{
    sa_fmt_add(f, "class %3u [ %8zu bytes ] : ", cls, size);
}

void sa_text_free_lists(struct sa_fmt *f, const struct sa_report_input *r)
{
    size_t cumulative = 0;

    sa_fmt_add(f, SA_RULE "Total size of freelists for per-thread and per-CPU caches,\n"
                          "transfer cache, and central cache, as well as number of\n"
                          "live pages, returned/requested spans by size-class\n" SA_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        const struct sa_snapshot_class *c = &r->s.cls[cls];
        size_t bytes = c->free_objects * c->size;
        union sa_class_metric_values m;

        sa_class_metrics_read(r, cls, &m);
        cumulative += bytes;
        class_name(f, cls, c->size);
        sa_fmt_add(f,
                   "%8zu objs; %5m MiB; %6m cum MiB; %8zu live pages; spans: %10llu ret / %10llu "
                   "req = %5.4F;\n",
                   c->free_objects, bytes, cumulative, m.pages, m.spans_returned, m.spans_requested,
                   sa_text_ratio(m.spans_returned, m.spans_requested));
    }
}

void sa_text_utilization(struct sa_fmt *f, const struct sa_report_input *r)
{
    sa_fmt_add(f, SA_RULE "Central cache freelist: Span utilization histogram\n"
                          "Non-cumulative number of spans with allocated objects < N\n" SA_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        const size_t *spans = r->cls[cls].central.utilization;

        class_name(f, cls, r->s.cls[cls].size);
        for (unsigned i = 0; i < SA_CENTRAL_BUCKETS; i++)
            sa_fmt_add(f, "%s%6zu < %u", i ? "," : "", spans[i], 1u << i);
        sa_fmt_add(f, "\n");
    }
}

void sa_text_transfer(struct sa_fmt *f, const struct sa_report_input *r)
{
    size_t cumulative = 0;

    sa_fmt_add(f, SA_RULE "Used bytes, current capacity, and maximum allowed capacity\n"
                          "of the transfer cache freelists.\n"
                          "It also reports insert/remove hits/misses by size class.\n" SA_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        union sa_class_metric_values m;
        size_t bytes;

        sa_class_metrics_read(r, cls, &m);
        bytes = m.transfer_objects * r->s.cls[cls].size;
        cumulative += bytes;
        class_name(f, cls, r->s.cls[cls].size);
        sa_fmt_add(f,
                   "%8zu objs; %5m MiB; %6m cum MiB; %5zu capacity; %5zu max_capacity; %8llu "
                   "insert hits; %8llu insert misses (%8llu partial); %8llu remove hits; %8llu "
                   "remove misses (%8llu partial);\n",
                   m.transfer_objects, bytes, cumulative, m.transfer_capacity,
                   m.transfer_capacity_allowed, m.insert_hits, m.insert_misses, m.insert_partial,
                   m.remove_hits, m.remove_misses, m.remove_partial);
    }
}

void sa_text_capacities(struct sa_fmt *f, const struct sa_report_input *r)
{
    sa_fmt_add(f, SA_RULE "Size class capacity statistics in per-cpu caches\n" SA_RULE);
    for (unsigned cls = 1; cls < r->s.classes; cls++) {
        union sa_class_metric_values m;

        sa_class_metrics_read(r, cls, &m);
        class_name(f, cls, r->s.cls[cls].size);
        sa_fmt_add(f,
                   "%6zu (minimum), %7.1F (average), %6zu (maximum), %6zu maximum allowed "
                   "capacity\n",
                   m.cpu_capacity_min, r->cls[cls].cpu.average, m.cpu_capacity_max,
                   m.cpu_capacity_allowed);
    }
}

/* The CPUs that this thread may run on. */
struct allowed {
    uint8_t cpus[SA_SLABS / 8];
};

static void read_allowed(const struct sa_snapshot *s, struct allowed *ret)
{
    *ret = (struct allowed){{0}};
    if (sa_snapshot_subject) {
        memcpy(ret, sa_snapshot_subject->cpus, sizeof(*ret));
        return;
    }
    if (s->experiment[SA_EXPERIMENT_PER_CPU] && !sa_filtered())
        sa_sys_affinity(ret, sizeof(*ret));
}

/* The metrics of a CPU's cache; false if the cache was never used. */
static bool read_cpu(int cpu, union sa_cpu_metric_values *ret)
{
    struct sa_cpu_cache_stats c;

    sa_cpu_cache_stats(cpu, &c);
    sa_cpu_metrics_read(&c, ret);
    return c.populated;
}

/*
 * The bytes that no CPU's row exceeds: the limit of all CPUs, or more for a CPU that has borrowed
 * from CPUs with fewer misses, or that has yet to return what a lower limit no longer allows.
 */
static size_t highest_limit(const struct sa_snapshot *s)
{
    size_t highest = s->cpu_cache_limit;
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++) {
        union sa_cpu_metric_values m;

        read_cpu(cpu, &m);
        highest = sa_max(highest, sa_max(m.limit_bytes, m.capacity_bytes + m.unallocated_bytes));
    }
    return highest;
}

void sa_text_cpus(struct sa_fmt *f, const struct sa_snapshot *s)
{
    int count = sa_cpu_cache_count();
    struct allowed allowed;

    read_allowed(s, &allowed);
    sa_fmt_add(f, SA_RULE "Bytes in per-CPU caches (per cpu limit: %zu bytes)\n" SA_RULE,
               highest_limit(s));
    for (int cpu = 0; cpu < count; cpu++) {
        bool active = allowed.cpus[cpu / 8] & 1u << cpu % 8;
        union sa_cpu_metric_values m;

        if (read_cpu(cpu, &m))
            sa_fmt_add(f, "cpu %3d: %12zu bytes (%7m MiB) with %12zu bytes unallocated%s\n", cpu,
                       m.cached_bytes, m.cached_bytes, m.unallocated_bytes,
                       active ? " active" : "");
    }
}

static void misses(struct sa_fmt *f, const union sa_cpu_metric_values *m)
{
    sa_fmt_add(
        f, "%12llu underflows,%12llu overflows, overflows / underflows: %5.2F, %12llu reclaims\n",
        m->underflows, m->overflows, sa_text_ratio(m->overflows, m->underflows), m->reclaims);
}

void sa_text_misses(struct sa_fmt *f)
{
    union sa_cpu_metric_values total = {{0}}, m;
    int count = sa_cpu_cache_count();

    sa_fmt_add(f, SA_RULE "Number of per-CPU cache underflows, overflows, and reclaims\n" SA_RULE);
    for (int cpu = 0; cpu < count; cpu++) {
        read_cpu(cpu, &m);
        total.underflows += m.underflows;
        total.overflows += m.overflows;
        total.reclaims += m.reclaims;
    }
    sa_fmt_add(f, "Total  : ");
    misses(f, &total);
    for (int cpu = 0; cpu < count; cpu++) {
        if (!read_cpu(cpu, &m))
            continue;
        sa_fmt_add(f, "cpu %3d: ", cpu);
        misses(f, &m);
    }
}
