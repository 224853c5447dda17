/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stats page of a target, in each of its formats (stats/report.h): that which the target itself
 * would write, made from outside. A child process takes over the target's state and reports, with
 * bounds on its time and memory, so that a hostile target can at most make it fail.
 */
#ifndef SA_TOOL_STATS_STATS_PAGE_H
#define SA_TOOL_STATS_STATS_PAGE_H

#include "alloc/os/buffer.h"
#include "stats/metrics.h"
#include "stats/report.h"
#include "tool/layout/table.h"

/*
 * Adds the page to a buffer, which the caller frees. file: the file that it is for, whose name the
 * format of Prometheus has as a label; NULL: none. ret_dropped: records that could not be read,
 * because they changed meanwhile, or make no sense.
 */
bool sa_stats_page(struct sa_target *t, const struct sa_table *table, enum sa_report_kind kind,
                   const char *file, struct sa_buffer *ret, uint64_t *ret_dropped,
                   struct sa_error *e);

/* The same of the metrics of the whole process alone, without those of parts of the heap. kind:
 * SA_REPORT_PROMETHEUS or SA_REPORT_OPENMETRICS. */
bool sa_stats_whole(struct sa_target *t, const struct sa_table *table, enum sa_report_kind kind,
                    struct sa_buffer *ret, struct sa_error *e);

/* The metrics of a target without a page, and the seconds since its first allocation (0: not
 * known). */
struct sa_stats_numbers {
    union sa_metric_values m;
    double seconds;
    double waste; /* bytes of free objects on spans, and free runs of mixed spans */
};

bool sa_stats_read(struct sa_target *t, const struct sa_table *table, struct sa_stats_numbers *ret,
                   struct sa_error *e);

#endif
