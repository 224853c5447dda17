/* SPDX-License-Identifier: Apache-2.0 */
/* The stats page as text, in the malloc-stats layout; doc/stats.md explains every line. */
#ifndef SA_STATS_TEXT_H
#define SA_STATS_TEXT_H

#include "alloc/base/fmt.h"
#include "stats/report_input.h"

/*
 * Writes the page of a report input, which stays the caller's. r: NULL if there is no memory for
 * one; the page is then a line that says so. Needs at most sa_report_size() bytes. Allocates
 * nothing. Takes locks of the CPU caches for a few loads each, and none while it formats. Safe to
 * call from any number of threads.
 */
void sa_text_format(struct sa_fmt *f, const struct sa_report_input *r);

#endif
