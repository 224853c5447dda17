/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The summary of a profile in a few lines: the head of the table, the comments of profile.proto,
 * and comments of the two text formats. doc/profiles.md, "The table", lists the lines.
 */
#ifndef SA_SAMPLING_EXPORT_SUMMARY_H
#define SA_SAMPLING_EXPORT_SUMMARY_H

#include "alloc/base/fmt.h"
#include "sampling/export/sink.h"
#include "sampling/export/values.h"

/* Converts nanoseconds to the largest unit of which they are at least 1, and stores the number.
 * Returns the name of the unit, from "ns" to "d". */
const char *sa_summary_life(double ns, double *ret);

/* Adds line number `line`, counted from 0, without a newline. all: the sum over all stacks. False:
 * the summary has fewer lines. */
bool sa_summary_line(const struct sa_profile *profile, const struct sa_by_stack *all, unsigned line,
                     struct sa_fmt *f);

/* Puts all lines, each with the prefix. */
void sa_summary_put(const struct sa_profile *profile, const struct sa_by_stack *all,
                    const char *prefix, struct sa_sink *out);

#endif
