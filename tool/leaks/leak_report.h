/* SPDX-License-Identifier: Apache-2.0 */
/* The table of leaks for people. */
#ifndef SA_TOOL_LEAKS_LEAK_REPORT_H
#define SA_TOOL_LEAKS_LEAK_REPORT_H

#include "tool/leaks/leaks.h"

#include <stdio.h>

/*
 * Writes what is lost, by the stack of the holder, most bytes first. profile: of the lost samples
 * only; live: all samples, as they were when the leaks were found; stopped_ms: negative: it was not
 * stopped. Returns 0, or -ENOMEM.
 */
int sa_leak_report(const struct sa_leaks *l, const struct sa_profile *profile,
                   const struct sa_sample_copy *live, double stopped_ms, FILE *to);

#endif
