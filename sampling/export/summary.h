/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile says in a few lines: the head of the table, and the comments of profile.proto. */
#ifndef SA_SAMPLING_EXPORT_SUMMARY_H
#define SA_SAMPLING_EXPORT_SUMMARY_H

#include "alloc/base/fmt.h"
#include "sampling/export/sink.h"
#include "sampling/export/values.h"

/* "heap", "fragmentation", ... */
const char *sa_summary_type(enum salloc_profile_type type);

/* A span of time in the unit in which it has few digits; returns the name of the unit. */
const char *sa_summary_life(double ns, double *ret);

/* Writes line number `line`, without a newline, of a profile with the sum `all`. False: there are
 * fewer. */
bool sa_summary_line(const struct sa_profile *profile, const struct sa_by_stack *all, unsigned line,
                     struct sa_fmt *f);

/* Puts all of these lines, each behind the prefix. */
void sa_summary_put(const struct sa_profile *profile, const struct sa_by_stack *all,
                    const char *prefix, struct sa_sink *out);

#endif
