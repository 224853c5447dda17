/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as JSON: one object with schema_version, integers only (sizes in bytes), counters
 * apart from gauges. Names stay as they are while schema_version does; new ones may come.
 */
#ifndef SA_STATS_JSON_H
#define SA_STATS_JSON_H

#include "alloc/base/fmt.h"
#include "stats/report_input.h"

#define SA_JSON_SCHEMA_VERSION 1

/* Writes a report input as JSON; like sa_text_format, also if r is NULL. */
void sa_json_format(struct sa_fmt *f, const struct sa_report_input *r);

#endif
