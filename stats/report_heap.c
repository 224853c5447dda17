/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the stats page about guarded allocations and the system's memory; see report_internal.h. */
#include "stats/report_internal.h"

void sa_report_guarded(struct sa_fmt *f, const struct sa_snapshot *s)
{
    const struct sa_guarded_stats *g = &s->guarded;

    sa_fmt_add(f, SA_REPORT_RULE "GWP-ASan Status\n" SA_REPORT_RULE);
    sa_fmt_add(f, "Successful Allocations: %llu\n", g->succeeded);
    sa_fmt_add(f, "Failed Allocations: %llu\n", g->failed);
    sa_fmt_add(f, "Skipped Allocations (Filtered): %llu\n", g->skipped);
    sa_fmt_add(f, "Skipped Allocations (Too Large): %llu\n", g->large);
    sa_fmt_add(f, "Slots Currently Allocated: %zu\n", g->allocated);
    sa_fmt_add(f, "Slots Currently Quarantined: %zu\n", g->quarantined);
    sa_fmt_add(f, "Maximum Slots Allocated: %zu / %zu\n", g->most_allocated, g->allowed);
}

void sa_report_system(struct sa_fmt *f, const struct sa_snapshot *s)
{
    sa_fmt_add(f, "Low-level allocator stats:\n");
    sa_fmt_add(f, "MmapSysAllocator: %zu bytes (%m MiB) allocated\n", s->system_bytes,
               s->system_bytes);
}
