/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of the stats page, for the lines SA_TABLE and SA_HUGE_TABLE of metrics.def. Each
 * function adds whole lines to f and keeps nothing.
 */
#ifndef SA_STATS_TEXT_INTERNAL_H
#define SA_STATS_TEXT_INTERNAL_H

#include "alloc/base/attrs.h"
#include "alloc/base/fmt.h"
#include "stats/report_input.h"

/* a / b; 0 if b is 0. */
SA_INLINE double sa_text_ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0.0;
}

#define SA_RULE "------------------------------------------------\n"

/* text_tables.c: a row for each size class, or for each CPU in use. */
void sa_text_free_lists(struct sa_fmt *f, const struct sa_report_input *r);
void sa_text_utilization(struct sa_fmt *f, const struct sa_report_input *r);
void sa_text_transfer(struct sa_fmt *f, const struct sa_report_input *r);
void sa_text_cpus(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_text_capacities(struct sa_fmt *f, const struct sa_report_input *r);
void sa_text_misses(struct sa_fmt *f);

/* text_heap.c: a row for each length of spans. label: the name of the page heap on the page.
 * seconds: the time over which rates are computed; 0: the rates are 0. */
void sa_text_lengths(struct sa_fmt *f, const char *label, const struct sa_span_ages *ages);
void sa_text_ages(struct sa_fmt *f, const char *label, const struct sa_span_ages *ages);
void sa_text_sizes(struct sa_fmt *f, const char *label, const struct sa_size_info *sizes,
                   double seconds);

/* text_huge.c: the lines of metrics_huge.def; none if the ordinary heap is a plain one. */
void sa_text_hugepages(struct sa_fmt *f, const struct sa_report_input *r);

#endif
