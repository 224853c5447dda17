/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that a report is made of, read at one time: too much for the stack of a small thread, so it
 * lies in memory of its own. One instance is part of the library, so that a report can be had when
 * there is no memory left; whoever comes while that one is in use gets a mapping.
 */
#ifndef SA_STATS_REPORT_INPUT_H
#define SA_STATS_REPORT_INPUT_H

#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "stats/stats_snapshot.h"

struct sa_report_input {
    struct sa_snapshot s;
    struct sa_class_detail cls[SA_CLASSES_MAX];
    bool has_huge; /* the ordinary heap is aware of hugepages */
    struct sa_huge_stats huge;
    struct sa_vm_coverage coverage; /* what the kernel says of that heap; none: it does not tell */
    struct sa_size_info sampled_sizes; /* of the sampled blocks' heap */
    struct sa_span_ages sampled_ages;
    double seconds; /* since the first allocation */
};

/* A reading taken now; NULL when out of memory. */
struct sa_report_input *sa_report_input_take(void);
void sa_report_input_release(struct sa_report_input *reading);

#endif
