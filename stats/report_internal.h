/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the stats page; see report.h. Each writes its lines from a snapshot, in the order
 * of the document. */
#ifndef SA_STATS_REPORT_INTERNAL_H
#define SA_STATS_REPORT_INTERNAL_H

#include "alloc/base/fmt.h"
#include "stats/report_input.h"

#define SA_REPORT_RULE "------------------------------------------------\n"

/* "class   1 [       16 bytes ] : " */
void sa_report_class_name(struct sa_fmt *f, unsigned cls, size_t size);

/* report_summary.c */
void sa_report_summary(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_metadata(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_peak(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_page_sizes(struct sa_fmt *f);
void sa_report_experiments(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_sampled_profiles(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_caches(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_sampling(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_process(struct sa_fmt *f, const struct sa_snapshot *s);

/* report_classes.c */
void sa_report_classes(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_utilization(struct sa_fmt *f, const struct sa_report_input *r);
void sa_report_transfer(struct sa_fmt *f, const struct sa_report_input *r);
void sa_report_capacities(struct sa_fmt *f, const struct sa_report_input *r);

/* report_cpus.c */
void sa_report_cpus(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_misses(struct sa_fmt *f);

/* report_limits.c */
void sa_report_limits(struct sa_fmt *f, const struct sa_snapshot *s);

/* report_heap.c; label: the name of the heap */
void sa_report_lengths(struct sa_fmt *f, const char *label, const struct sa_span_ages *ages);
void sa_report_ages(struct sa_fmt *f, const char *label, const struct sa_span_ages *ages);
void sa_report_allocation_sizes(struct sa_fmt *f, const char *label,
                                const struct sa_size_info *sizes);
void sa_report_size_info(struct sa_fmt *f, const char *label, const struct sa_size_info *sizes,
                         double seconds);
void sa_report_guarded(struct sa_fmt *f, const struct sa_snapshot *s);
void sa_report_system(struct sa_fmt *f, const struct sa_snapshot *s);

/* report_huge.c; nothing if the heap is a plain one */
void sa_report_huge(struct sa_fmt *f, const struct sa_report_input *r);

#endif
