/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report as JSON: one object with schema_version. Numbers are integers, and sizes are in bytes.
 * Counters and gauges are in separate objects. While schema_version stays the same, names do not
 * change; new names may appear.
 */
#ifndef SA_STATS_JSON_H
#define SA_STATS_JSON_H

#include "alloc/base/fmt.h"
#include "stats/report_input.h"

#define SA_JSON_SCHEMA_VERSION 1

/* Writes a report input as JSON, under the rules of sa_text_format (stats/text.h). r: NULL if there
 * is no memory for one; the object then has the member "error". */
void sa_json_format(struct sa_fmt *f, const struct sa_report_input *r);

#endif
