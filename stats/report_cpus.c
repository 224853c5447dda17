/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of the stats page with a line for each CPU; see report_internal.h. Where caches are
 * per thread, "cpu" is the number of a thread's cache, and none is marked as active: which threads
 * run is not known.
 */
#include "alloc/base/bits.h"
#include "alloc/cpu_cache/cpu_cache.h"
#include "alloc/os/filter.h"
#include "alloc/os/sys.h"
#include "stats/report_internal.h"

/* The CPUs that this thread may run on. */
struct allowed {
    uint8_t cpus[SA_SLABS / 8];
};

static void read_allowed(const struct sa_snapshot *s, struct allowed *ret)
{
    *ret = (struct allowed){{0}};
    if (s->experiment[SA_EXPERIMENT_PER_CPU] && !sa_filtered())
        sa_sys_affinity(ret, sizeof(*ret));
}

/* What the cache of a CPU may hold: the limit of all, unless others that miss less have lent it
 * some of theirs, or it has not given back so far what a lower limit does not allow. */
static size_t highest_limit(const struct sa_snapshot *s)
{
    size_t highest = s->cpu_cache_limit;
    int count = sa_cpu_cache_count();

    for (int cpu = 0; cpu < count; cpu++) {
        struct sa_cpu_cache_stats c;

        sa_cpu_cache_stats(cpu, &c);
        highest = sa_max(highest, sa_max(c.limit_bytes, c.capacity_bytes + c.unallocated_bytes));
    }
    return highest;
}

void sa_report_cpus(struct sa_fmt *f, const struct sa_snapshot *s)
{
    int count = sa_cpu_cache_count();
    struct allowed allowed;

    read_allowed(s, &allowed);
    sa_fmt_add(f,
               SA_REPORT_RULE "Bytes in per-CPU caches (per cpu limit: %zu bytes)\n" SA_REPORT_RULE,
               highest_limit(s));
    for (int cpu = 0; cpu < count; cpu++) {
        struct sa_cpu_cache_stats c;
        bool active = allowed.cpus[cpu / 8] & 1u << cpu % 8;

        sa_cpu_cache_stats(cpu, &c);
        if (c.populated)
            sa_fmt_add(f, "cpu %3d: %12zu bytes (%7m MiB) with %12zu bytes unallocated%s\n", cpu,
                       c.used_bytes, c.used_bytes, c.unallocated_bytes, active ? " active" : "");
    }
}

static void misses(struct sa_fmt *f, const struct sa_cpu_cache_stats *c)
{
    sa_fmt_add(
        f, "%12llu underflows,%12llu overflows, overflows / underflows: %5.2F, %12llu reclaims\n",
        c->underflows, c->overflows,
        c->underflows ? (double)c->overflows / (double)c->underflows : 0.0, c->reclaims);
}

void sa_report_misses(struct sa_fmt *f)
{
    int count = sa_cpu_cache_count();
    struct sa_cpu_cache_stats total = {0}, c;

    sa_fmt_add(f, SA_REPORT_RULE
               "Number of per-CPU cache underflows, overflows, and reclaims\n" SA_REPORT_RULE);
    for (int cpu = 0; cpu < count; cpu++) {
        sa_cpu_cache_stats(cpu, &c);
        total.underflows += c.underflows;
        total.overflows += c.overflows;
        total.reclaims += c.reclaims;
    }
    sa_fmt_add(f, "Total  : ");
    misses(f, &total);
    for (int cpu = 0; cpu < count; cpu++) {
        sa_cpu_cache_stats(cpu, &c);
        if (!c.populated)
            continue;
        sa_fmt_add(f, "cpu %3d: ", cpu);
        misses(f, &c);
    }
}
