/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input of a report: the stats snapshot, with the details that only reports need. It is too
 * large for the stack of a small thread. The library has one instance of its own, so that a report
 * works when memory has run out. While that one is in use, further callers get a mapping each.
 */
#ifndef SA_STATS_REPORT_INPUT_H
#define SA_STATS_REPORT_INPUT_H

#include "alloc/os/vm.h"
#include "alloc/page_heap/huge/huge_stats.h"
#include "stats/stats_snapshot.h"

struct sa_report_input {
    struct sa_snapshot s;
    struct sa_class_detail cls[SA_CLASSES_MAX];
    bool has_huge; /* the ordinary heap is hugepage-aware, and huge is filled in */
    struct sa_huge_stats huge;
    struct sa_vm_coverage coverage; /* of that heap, from the kernel; 0: the kernel does not tell */
    struct sa_size_info sampled_sizes; /* of the sampled heap */
    struct sa_span_ages sampled_ages;
    double seconds; /* since the first allocation */
};

/*
 * Takes an input now. The caller owns it until sa_report_input_release. NULL: out of memory. If a
 * fork is in progress, the values that need locks are 0. No lock may be held by the caller.
 */
struct sa_report_input *sa_report_input_take(void);
void sa_report_input_release(struct sa_report_input *input);

#endif
